// Tests of connections that break, hang or are reused.

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// handler serves each connection by hand; the connection is closed when serve returns,
// and all of them at the end of the test.
func handler(t *testing.T, serve func(n int, conn *net.TCPConn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				serve(n, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l.Addr().String()
}

// readRequest reads one whole request.
func readRequest(conn net.Conn) {
	var got []byte
	b := make([]byte, 64<<10)
	for {
		n, err := conn.Read(b)
		got = append(got, b[:n]...)
		head, body, found := bytes.Cut(got, []byte("\r\n\r\n"))
		if found {
			_, length, _ := strings.Cut(string(head), "Content-Length: ")
			length, _, _ = strings.Cut(length, "\r\n")
			var want int
			_, _ = fmt.Sscan(length, &want)
			if len(body) >= want {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// untilClosed reads until the other side closes.
func untilClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	err = client(t, config("http://"+address+"/audit?token=secret")).Send(t.Context(), []byte(list))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v is not ECONNREFUSED", err)
	}
	if want := "POST http://" + address + "/audit: dial tcp " + address + ": connect: connection refused"; err.Error() != want {
		t.Errorf("got %s\nwant %s", err, want)
	}
	if ne, ok := errors.AsType[net.Error](err); !ok || ne.Timeout() {
		t.Errorf("%v: net.Error %v, want one that is no timeout", err, ok)
	}
}

func TestResetBeforeTheBodyIsRead(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) {
		_, _ = conn.Read(make([]byte, 16))
		reset(conn)
	})
	// More than both socket buffers hold, so that the reset meets a write.
	err := client(t, config("http://"+address)).Send(t.Context(), bytes.Repeat([]byte("x"), 32<<20))
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v, want ECONNRESET or EPIPE", err)
	}
}

// The same, with a proper close.
func TestClosedBeforeTheBodyIsRead(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) {
		_ = conn.CloseWrite()
		untilClosed(conn)
	})
	err := client(t, config("http://"+address)).Send(t.Context(), bytes.Repeat([]byte("x"), 32<<20))
	if !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
}

func TestResetAfterTheBody(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		reset(conn)
	})
	err := client(t, config("http://"+address)).Send(t.Context(), []byte(list))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want ECONNRESET", err)
	}
}

func TestClosedAfterTheBody(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) { readRequest(conn) })
	err := client(t, config("http://"+address)).Send(t.Context(), []byte(list))
	if !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
}

func TestClosedWithinTheAnswersHeader(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Le")
	})
	err := client(t, config("http://"+address)).Send(t.Context(), []byte(list))
	if !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
}

func TestAnswerThatIsNotHTTP(t *testing.T) {
	for _, say := range []string{"SSH-2.0-x", list} {
		address := handler(t, func(_ int, conn *net.TCPConn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, say+"\r\n\r\n")
		})
		want := `net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0-x"`
		if say == list {
			want = "[withheld: repeats what was sent]"
		}
		err := client(t, config("http://"+address)).Send(t.Context(), []byte(list))
		if err == nil || err.Error() != "POST http://"+address+": "+want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// A receiver that accepts and never reads: the body is larger than the write buffer and
// than what the kernel takes, so the POST hangs while writing.
func TestReceiverThatNeverReads(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) { <-t.Context().Done() })
	cfg := config("http://" + address)
	cfg.RequestTimeout = 50 * time.Millisecond
	body := bytes.Repeat([]byte("x"), 32<<20)
	err := client(t, cfg).Send(t.Context(), body)
	clear(body) // the race detector sees whoever still reads it
	wantTimeout(t, err, "POST http://"+address+": not answered within 50ms (Request_Timeout)")
}

func TestReceiverThatNeverAnswers(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) { untilClosed(conn) })
	cfg := config("http://" + address)
	cfg.RequestTimeout = 50 * time.Millisecond
	err := client(t, cfg).Send(t.Context(), []byte(list))
	wantTimeout(t, err, "POST http://"+address+": not answered within 50ms (Request_Timeout)")
}

func wantTimeout(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || err.Error() != text {
		t.Errorf("got %v\nwant %s", err, text)
	}
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("%v is not a timeout", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", err)
	}
}

func TestEndOfTheContextEndsSend(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address := handler(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		cancel()
		untilClosed(conn)
	})
	err := client(t, config("http://"+address)).Send(ctx, []byte(list))
	if !errors.Is(err, context.Canceled) || err.Error() != "POST http://"+address+": context canceled" {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestHeaderFloodIsCut(t *testing.T) {
	address := handler(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(conn, "X: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	})
	err := client(t, config("http://"+address)).Send(t.Context(), []byte(list))
	want := "POST http://" + address + ": net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// An answer counts by its status, however much follows, and the connection is given up.
func TestEndlessAnswerBody(t *testing.T) {
	for _, status := range []int{200, 503} {
		var conns atomic.Int32
		address := handler(t, func(_ int, conn *net.TCPConn) {
			conns.Add(1)
			readRequest(conn)
			fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n", status)
			for {
				if _, err := io.WriteString(conn, "400\r\n"+strings.Repeat("x", 1024)+"\r\n"); err != nil {
					return
				}
			}
		})
		c := client(t, config("http://"+address))
		for range 2 {
			err := c.Send(t.Context(), []byte(list))
			if status == 200 {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			if answer, ok := errors.AsType[*Error](err); !ok || answer.Status != 503 || answer.Message != strings.Repeat("x", 200) {
				t.Errorf("got %v, want 503 and 200 x", err)
			}
		}
		if n := conns.Load(); n != 2 {
			t.Errorf("%d: %d connections, want 2", status, n)
		}
	}
}

// Early answer, and the body larger than the write buffer and never read: Send must
// not return while net/http is still reading the body.
func TestBodyIsNotReadAfterAnEarlyAnswer(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 413 X\r\nContent-Length: 3\r\n\r\nbig", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"} {
		address := handler(t, func(_ int, conn *net.TCPConn) {
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = io.WriteString(conn, answer)
			<-t.Context().Done()
		})
		c := client(t, config("http://"+address))
		body := bytes.Repeat([]byte("x"), 32<<20)
		err := c.Send(t.Context(), body)
		clear(body) // the race detector sees whoever still reads it
		if strings.Contains(answer, "413") {
			if e, ok := errors.AsType[*Error](err); !ok || e.Status != 413 || e.Message != "big" {
				t.Errorf("got %v, want 413", err)
			}
		} else if _, ok := errors.AsType[*earlyError](err); !ok {
			t.Errorf("got %v, want that the body was not sent", err)
		}
	}
}

// The write loop may take up a request after RoundTrip has returned.
func TestBodyTakenBackBeforeItWasRead(t *testing.T) {
	l := lend([]byte("body"), false)
	first := l.reader()
	second, _ := l.another()
	l.takeBack()
	l.wroteHeaders()
	for _, r := range []io.Reader{first, second} {
		if b, err := io.ReadAll(r); len(b) != 0 || err != nil {
			t.Errorf("read %q %v, want nothing", b, err)
		}
	}
}

func TestTakeBackWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lend([]byte("body"), false)
		l.wroteHeaders()
		var b []byte
		go func() {
			time.Sleep(time.Second) // fake time
			b, _ = io.ReadAll(l.reader())
			l.wroteRequest(struct{ Err error }{})
		}()
		start := time.Now()
		l.takeBack()
		if waited := time.Since(start); waited != time.Second || string(b) != "body" {
			t.Errorf("waited %v, read %q", waited, b)
		}
	})
}

// inMemory is a dialer to an http.Server without sockets, for fake time.
type inMemory struct{ conns chan net.Conn }

func (m inMemory) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	m.conns <- there
	return here, nil
}
func (m inMemory) Accept() (net.Conn, error) {
	conn, ok := <-m.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (m inMemory) Close() error   { close(m.conns); return nil }
func (m inMemory) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble runs test with a Client to h, in fake time.
func inBubble(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := inMemory{make(chan net.Conn)}
		s := &http.Server{Handler: h}
		go func() { _ = s.Serve(m) }()
		c, err := newClient(config("http://webhook"), m.dial)
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
		c.Close()
		s.Close()
	})
}

func TestSendBlocksForRequestTimeoutAtMost(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees the other side's end only after the body
		<-r.Context().Done()
	}, func(t *testing.T, c *Client) {
		start := time.Now()
		err := c.Send(t.Context(), []byte(list))
		wantTimeout(t, err, "POST http://webhook: not answered within 30s (Request_Timeout)")
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v, want 30s", took)
		}
	})
}

func TestSlowAnswerWithinRequestTimeoutIsAwaited(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) { time.Sleep(30*time.Second - 1) }, func(t *testing.T, c *Client) {
		start := time.Now()
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 30*time.Second-1 {
			t.Errorf("took %v, want 29.999999999s", took)
		}
	})
}

// The status counts; a body that never ends is waited for one second.
func TestAnswerBodyThatNeverEnds(t *testing.T) {
	for _, status := range []int{200, 429} {
		inBubble(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "slow down")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, func(t *testing.T, c *Client) {
			start := time.Now()
			err := c.Send(t.Context(), []byte(list))
			if took := time.Since(start); took != time.Second {
				t.Errorf("took %v, want 1s", took)
			}
			if status == 200 {
				if err != nil {
					t.Error(err)
				}
			} else if want := `POST http://webhook: answered 429 Too Many Requests: "slow down"`; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// noting is a connection that notes what is written to it.
type noting struct {
	net.Conn
	mu     *sync.Mutex
	writes *[][]byte
}

func (n noting) Write(b []byte) (int, error) {
	n.mu.Lock()
	*n.writes = append(*n.writes, b)
	n.mu.Unlock()
	return n.Conn.Write(b)
}

func TestALargeBodyIsWrittenFromWhereItIsAndASmallRequestAtOnce(t *testing.T) {
	var got []byte
	s := server(t, func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) })
	var mu sync.Mutex
	var writes [][]byte
	cfg := config(s.URL)
	cfg.MaxBodyBytes = 1 << 20
	c, err := newClient(cfg, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return noting{conn, &mu, &writes}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct{ size, writes int }{{1 << 20, 2}, {1000, 1}} {
		writes = nil
		body := bytes.Repeat([]byte("event "), tt.size/6)
		if err := c.Send(context.Background(), body); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, body) {
			t.Fatalf("%d bytes arrived that are not the %d sent", len(got), len(body))
		}
		if len(writes) != tt.writes {
			t.Errorf("a body of %d bytes took %d writes, want %d", len(body), len(writes), tt.writes)
		}
		if last := writes[len(writes)-1]; tt.writes > 1 && &last[len(last)-1] != &body[len(body)-1] {
			t.Error("the rest of the body was copied before it was written")
		}
	}
}
