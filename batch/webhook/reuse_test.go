// Tests of how connections are kept, given up and closed.

package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestConnectionsAreReused(t *testing.T) {
	var conns atomic.Int32
	status := atomic.Int32{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, strings.Repeat("answer ", 1000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	for _, tt := range []struct{ status, want int32 }{
		{200, 1},
		{400, 1},
		{429, 1},
		{503, 20}, // another connection may lead to another backend
	} {
		conns.Store(0)
		status.Store(tt.status)
		c := client(t, config(s.URL))
		for range 20 {
			_ = c.Send(t.Context(), []byte(list))
		}
		if got := conns.Load(); got != tt.want {
			t.Errorf("status %d: %d connections for 20 requests, want %d", tt.status, got, tt.want)
		}
	}
}

// A server that closes each connection right after its answer, without saying so: the
// next POST finds the connection closed, and no POST fails or arrives twice for it.
func TestServerThatClosesAfterEachAnswer(t *testing.T) {
	var requests atomic.Int32
	closed := make(chan struct{}, 100)
	address := handler(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		requests.Add(1)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		conn.Close()
		closed <- struct{}{}
	})
	c := client(t, config("http://"+address))
	for range 50 {
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			// The close may cross with the next request on its way; that is a failure
			// which only the sender of the batch may repeat.
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Fatal(err)
			}
			continue
		}
		<-closed
	}
	if n := requests.Load(); n > 50 {
		t.Errorf("%d requests arrived, want at most 50", n)
	}
}

// One connection breaks; the other idle ones, likely to lead to the same dead end, are
// closed too.
func TestIdleConnectionsAreClosedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialled, asked, ended atomic.Int32
		both := make(chan struct{})
		c, err := newClient(config("http://webhook"), func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			dialled.Add(1)
			go func() {
				readRequest(there)
				if asked.Add(1) == 2 {
					close(both)
				}
				<-both // so that the two requests need two connections
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				if _, err := there.Read(make([]byte, 16)); err == nil {
					there.Close() // the third request meets this …
				}
				untilClosed(there) // … and the other connection must see its end
				ended.Add(1)
			}()
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var senders sync.WaitGroup
		for range 2 {
			senders.Go(func() {
				if err := c.Send(t.Context(), []byte(list)); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		if err := c.Send(t.Context(), []byte(list)); err == nil {
			t.Error("third Send: nil, want an error")
		}
		synctest.Wait()
		if dialled.Load() != 2 || ended.Load() != 2 {
			t.Errorf("%d connections of %d ended, want 2 of 2", ended.Load(), dialled.Load())
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	started := make(chan struct{})
	var once sync.Once
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/hang" {
			once.Do(func() { close(started) })
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	c, err := New(config(s.URL + "/hang"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- c.Send(context.Background(), []byte(list)) }()
	<-started
	c.Close()
	c.Close()
	if err := <-done; err == nil {
		t.Error("Send under way: nil, want an error")
	}
	want := "POST " + s.URL + "/hang: the client is closed"
	if err := c.Send(t.Context(), []byte(list)); err == nil || err.Error() != want {
		t.Errorf("Send after Close: %v, want %s", err, want)
	}
}

func TestCloseEndsADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newClient(config("http://webhook"), func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(time.Second, c.Close)
		if err := c.Send(t.Context(), []byte(list)); err == nil {
			t.Error("Send: nil, want an error")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Send returned after %v, want 1s", took)
		}
	})
}

// A dial that its request gave up on goes on in net/http, but not for long.
func TestTimeoutEndsADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		c, err := newClient(config("http://webhook"), func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			ended = true
			return nil, ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		wantTimeout(t, c.Send(t.Context(), []byte(list)), "POST http://webhook: not answered within 30s (Request_Timeout)")
		synctest.Wait()
		if !ended {
			t.Error("the dial goes on")
		}
		c.Close()
	})
}

func TestCloseEndsATLSHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("https://webhook")
		c, err := newClient(cfg, func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go untilClosed(there) // never says hello
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(time.Second, c.Close)
		if err := c.Send(t.Context(), []byte(list)); err == nil {
			t.Error("Send: nil, want an error")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Send returned after %v, want 1s", took)
		}
	})
}

// A connection that is idle does not pin an address that the webhook's name has left.
func TestIdleConnectionsAreClosedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled := 0
		c, err := newClient(config("http://webhook"), func(context.Context, string, string) (net.Conn, error) {
			dialled++
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				for {
					readRequest(there)
					if _, err := io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
						return
					}
				}
			}()
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			idle time.Duration
			want int
		}{{0, 1}, {idleTimeout - 1, 1}, {idleTimeout, 2}} {
			time.Sleep(tt.idle)
			synctest.Wait()
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Error(err)
			}
			if dialled != tt.want {
				t.Errorf("idle for %v: %d connections, want %d", tt.idle, dialled, tt.want)
			}
		}
		c.Close()
	})
}
