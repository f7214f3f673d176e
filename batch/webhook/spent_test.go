// Tests of the connection that was answered 5xx: it carries no further request, and
// nothing else is lost with it.

package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// connNumber is the context key of a connection's number at a numbered server.
type connNumber struct{}

// numbered is a server for scheme that numbers its connections from 1, and the Config of
// a client to it.
func numbered(t *testing.T, scheme string, h func(w http.ResponseWriter, r *http.Request, conn int32)) (*httptest.Server, Config, *atomic.Int32) {
	t.Helper()
	var conns atomic.Int32
	s := unstarted(t, func(w http.ResponseWriter, r *http.Request) { h(w, r, r.Context().Value(connNumber{}).(int32)) })
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connNumber{}, conns.Add(1))
	}
	if scheme == "http" {
		s.Start()
		return s, config(s.URL), &conns
	}
	a := newAuthority(t, "ours")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pairFor(t, a, "127.0.0.1")}}
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile = file(t, a.pem)
	return s, cfg, &conns
}

// wantStatus wants the error of an answer with status, nil for 200.
func wantStatus(t *testing.T, err error, status int) {
	t.Helper()
	if status == http.StatusOK {
		if err != nil {
			t.Errorf("got %v, want nil", err)
		}
	} else if answer, ok := errors.AsType[*Error](err); !ok || answer.Status != status {
		t.Errorf("got %v, want %d", err, status)
	}
}

// A third of the answers is 500, while four senders are at work.
func TestEach5xxCostsOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const senders, sends = 4, 200
		var mu sync.Mutex
		got, failed, dialled := map[string]int{}, 0, 0
		m := inMemory{make(chan net.Conn)}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			got[string(body)]++
			if len(got)%3 == 0 {
				failed++
				w.WriteHeader(http.StatusInternalServerError)
			}
		})}
		go func() { _ = s.Serve(m) }()
		c, err := newClient(config("http://webhook"), func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			dialled++
			mu.Unlock()
			return m.dial(ctx, network, address)
		})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var refused atomic.Int32
		for sender := range senders {
			all.Go(func() {
				// No two of them do anything at the same moment.
				time.Sleep(time.Duration(sender) * time.Millisecond)
				for n := range sends {
					err := c.Send(t.Context(), fmt.Appendf(nil, "%d of sender %d", n, sender))
					if err != nil {
						wantStatus(t, err, http.StatusInternalServerError)
						refused.Add(1)
					}
				}
			})
		}
		all.Wait()
		c.Close()
		s.Close()
		for body, n := range got {
			if n != 1 {
				t.Errorf("%q was received %d times", body, n)
			}
		}
		if len(got) != senders*sends || failed != len(got)/3 || int(refused.Load()) != failed {
			t.Errorf("%d requests, %d of them answered 500, and %d of %d Sends failed", len(got), failed, refused.Load(), senders*sends)
		}
		if dialled > failed+senders {
			t.Errorf("%d connections, want at most %d: one for each 500 and one for each sender", dialled, failed+senders)
		}
	})
}

func TestAConnectionAnswered5xxIsNotUsedAgainAndTheOthersAre(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for _, text := range []string{"", "busy"} {
			t.Run(scheme+" "+text, func(t *testing.T) {
				var used []int32
				var mu sync.Mutex
				status := http.StatusOK
				together := make(chan struct{}, 2)
				_, cfg, conns := numbered(t, scheme, func(w http.ResponseWriter, r *http.Request, conn int32) {
					_, _ = io.Copy(io.Discard, r.Body)
					mu.Lock()
					used = append(used, conn)
					answer, n := status, len(used)
					mu.Unlock()
					if n <= 2 { // wait for each other, so that they need two connections
						together <- struct{}{}
						for len(together) < 2 {
							time.Sleep(time.Millisecond)
						}
					}
					w.WriteHeader(answer)
					_, _ = io.WriteString(w, text)
				})
				c := client(t, cfg)
				var two sync.WaitGroup
				for range 2 {
					two.Go(func() { wantStatus(t, c.Send(t.Context(), []byte(list)), http.StatusOK) })
				}
				two.Wait()
				for _, answer := range []int{503, 200, 500, 200, 200} {
					mu.Lock()
					status = answer
					mu.Unlock()
					wantStatus(t, c.Send(t.Context(), []byte(list)), answer)
				}
				first := used[2] // whichever of the two net/http takes
				if want := []int32{first, 3 - first, 3 - first, 3, 3}; !slices.Equal(used[2:], want) || conns.Load() != 3 {
					t.Errorf("requests came over connections %d of %d, want %d of 3", used[2:], conns.Load(), want)
				}
			})
		}
	}
}

// Answers of 5xx at random, with and without a body, to small requests and to such as
// take more than one write: each body is received once, and no Send fails for another's
// answer.
func TestA5xxNeitherCutsNorRepeatsOtherRequests(t *testing.T) {
	const senders, sends = 4, 150
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			var mu sync.Mutex
			got := map[string]int{}
			failed := 0
			_, cfg, _ := numbered(t, scheme, func(w http.ResponseWriter, r *http.Request, _ int32) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Errorf("a request was cut: %v", err)
				}
				name, _, _ := strings.Cut(string(body), " ")
				status := 0
				mu.Lock()
				got[name]++
				if rand.IntN(3) == 0 {
					failed++
					status = 500 + rand.IntN(4)
				}
				mu.Unlock()
				if status == 0 {
					return
				}
				w.WriteHeader(status)
				if rand.IntN(2) == 0 {
					_, _ = io.WriteString(w, "busy")
				}
			})
			c := client(t, cfg)
			var all sync.WaitGroup
			var refused atomic.Int32
			for sender := range senders {
				all.Go(func() {
					for n := range sends {
						body := fmt.Appendf(nil, "%d-%d ", sender, n)
						if n%8 == 0 {
							body = append(body, halfSent[:100<<10]...)
						}
						err := c.Send(t.Context(), body)
						if err == nil {
							continue
						}
						refused.Add(1)
						if answer, ok := errors.AsType[*Error](err); !ok || answer.Status < 500 {
							t.Errorf("got %v, want a 5xx", err)
						}
					}
				})
			}
			all.Wait()
			for name, n := range got {
				if n != 1 {
					t.Errorf("%s was received %d times", name, n)
				}
			}
			if len(got) != senders*sends || int(refused.Load()) != failed {
				t.Errorf("%d of %d bodies were received, %d answered 5xx, and %d Sends failed", len(got), senders*sends, failed, refused.Load())
			}
		})
	}
}

// A receiver that closes after its 5xx, without having said so, does not fail the next
// request.
func TestAReceiverThatClosesAfterA5xxFailsNoOtherRequest(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nbusy"} {
		var requests atomic.Int32
		address := handler(t, func(_ int, conn *net.TCPConn) {
			readRequest(conn)
			requests.Add(1)
			_, _ = io.WriteString(conn, answer)
		})
		c := client(t, config("http://"+address))
		for range 500 {
			wantStatus(t, c.Send(t.Context(), []byte(list)), 503)
		}
		if n := requests.Load(); n != 500 {
			t.Errorf("%d requests came, want 500", n)
		}
	}
}

// What comes from a connection behind its 5xx, at the moment when it is closed for that, is
// no answer to the next request.
func TestAnAnswerBehindA5xxAcceptsNothing(t *testing.T) {
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard) // where net/http tells of it
	for _, behind := range []string{"200", "400"} {
		var requests atomic.Int32
		address := handler(t, func(n int, conn *net.TCPConn) {
			readRequest(conn)
			requests.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
			untilClosed(conn)
		})
		c, err := newClient(config("http://"+address), func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &lastWord{Conn: conn, word: "HTTP/1.1 " + behind + " X\r\nContent-Length: 4\r\n\r\nlate"}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			before := requests.Load()
			err := c.Send(t.Context(), []byte(list))
			if _, ok := errors.AsType[*earlyError](err); ok && requests.Load() == before {
				continue // not sent, and not said to be
			}
			wantStatus(t, err, 503)
			if requests.Load() != before+1 {
				t.Fatalf("Send %d was answered, and did not arrive once", n)
			}
		}
		c.Close()
	}
}

// lastWord is a connection from which word is read once it was closed, after the next
// request was begun and before that knows that it cannot be written.
type lastWord struct {
	net.Conn
	word string
}

func (c *lastWord) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, net.ErrClosed) && c.word != "" {
		time.Sleep(time.Millisecond)
		n, err = copy(b, c.word), nil
		c.word = ""
	}
	return n, err
}

func (c *lastWord) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, net.ErrClosed) {
		time.Sleep(10 * time.Millisecond)
	}
	return n, err
}

// The order of things held: a connection that was passed on is left to whoever has it, and
// spent by nobody else.
func TestAConnectionIsSpentByWhoeverHadItLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which does not wait for a write that nobody reads
		here, there := net.Pipe()
		defer there.Close()
		bound := &boundConn{Conn: here, over: make(chan struct{}), forget: func() bool { return true }}
		defer bound.Close()
		got := httptrace.GotConnInfo{Conn: bound}
		var loans [4]*loan
		for i := range loans {
			loans[i] = lend([]byte(list), false)
		}
		first, second, third, fourth := loans[0], loans[1], loans[2], loans[3]
		first.gotConn(got)
		second.gotConn(got)
		if !first.spend() {
			t.Error("the connection was to be told from one of HTTP/2")
		}
		third.gotConn(got)
		if second.gotSpent() || third.gotSpent() {
			t.Error("spent by one that did not have it any more")
		}
		go func() { _, _ = io.ReadFull(there, make([]byte, len(list))) }()
		if n, err := bound.Write([]byte(list)); n != len(list) || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		third.spend()
		fourth.gotConn(got)
		if !fourth.gotSpent() || third.gotSpent() {
			t.Error("not spent for the next, or for the one that had it")
		}
		if n, err := bound.Write([]byte(list)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("wrote %d bytes, %v, to a spent connection", n, err)
		}
		fourth.getConn("")
		if fourth.gotSpent() {
			t.Error("spent while another connection is looked for")
		}
	})
}

// roundTripFunc is an http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What fails before a connection is looked for, as a context that has ended does, is not
// tried for ever because the attempt before was given a spent one.
func TestAFailureAfterASpentConnectionEnds(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	bound := &boundConn{Conn: here, over: make(chan struct{}), forget: func() bool { return true }}
	bound.turn.Store(-2)
	c := client(t, config("http://webhook"))
	calls := 0
	c.rt = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if calls++; calls == 1 {
			httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Conn: bound})
		}
		return nil, errors.New("broken")
	})
	if err := c.Send(t.Context(), []byte(list)); err == nil || err.Error() != "POST http://webhook: broken" || calls != 2 {
		t.Errorf("got %v after %d calls, want broken after 2", err, calls)
	}
}
