// Tests of receivers that are slow, broken or hostile: each costs no more than
// Request_Timeout and a bounded piece of memory, and the next Send works.

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// halfSent is larger than what the write buffer and both socket buffers hold, so that
// a receiver that reads a kilobyte of it finds its sender still writing.
var halfSent = bytes.Repeat([]byte("x"), 16<<20)

// A receiver that refuses a body unread and closes: what is unread makes its kernel
// reset the connection, and the reset meets the write. The status is what counts.
func TestAnAnswerBeforeTheBodyWasReadIsSeen(t *testing.T) {
	for _, status := range []int{413, 400, 401, 503} {
		address := handler(t, func(_ int, conn *net.TCPConn) {
			_, _ = conn.Read(make([]byte, 1024))
			fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig", status)
		})
		c := client(t, config("http://"+address))
		for range 20 {
			err := c.Send(t.Context(), halfSent)
			if answer, ok := errors.AsType[*Error](err); !ok || answer.Status != status || answer.Message != "big" {
				t.Fatalf("got %v, want %d and what it says", err, status)
			}
		}
	}
}

// The same over TLS, where the answer has to be decrypted after the reset.
func TestAnAnswerBeforeTheBodyWasReadIsSeenOverTLS(t *testing.T) {
	a := newAuthority(t, "ours")
	s := unstarted(t, func(w http.ResponseWriter, r *http.Request) {
		// What net/http sends for a body beyond its patience, at once.
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 413 X\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
		conn.Close()
	})
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pairFor(t, a, "127.0.0.1")}}
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile = file(t, a.pem)
	c := client(t, cfg)
	for range 20 {
		err := c.Send(t.Context(), halfSent)
		if answer, ok := errors.AsType[*Error](err); !ok || answer.Status != 413 || answer.Message != "big" {
			t.Fatalf("got %v, want 413 and what it says", err)
		}
	}
}

// A receiver that says it has what it has not read loses nothing.
func TestA2xxBeforeTheBodyWasSentAcceptsNothing(t *testing.T) {
	a := newAuthority(t, "ours")
	pair := pairFor(t, a, "127.0.0.1")
	var wg sync.WaitGroup // not t.Parallel, which runs no more at once than there are processors
	defer wg.Wait()
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", // cut
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nhello", // without an end
	} {
		for _, scheme := range []string{"http", "https", "http, gzip"} {
			address := handler(t, func(_ int, conn *net.TCPConn) {
				var c net.Conn = conn
				if scheme == "https" {
					c = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}})
				}
				_, _ = io.ReadFull(c, make([]byte, 300))
				_, _ = io.WriteString(c, answer)
				if strings.Contains(answer, "close") {
					c.Close()
					return
				}
				<-t.Context().Done()
			})
			protocol, _, compressed := strings.Cut(scheme, ",")
			cfg := config(protocol + "://" + address)
			cfg.Gzip = compressed
			if protocol == "https" {
				cfg.CAFile = file(t, a.pem)
			}
			c, body := client(t, cfg), noise()
			wg.Go(func() {
				err := c.Send(t.Context(), body)
				if _, ok := errors.AsType[*earlyError](err); !ok && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s, %q: got %v, want that the body was not sent", scheme, answer, err)
				}
			})
		}
	}
}

// What is waited for after an early answer is not waited for longer than the caller does.
func TestTheEndOfTheContextEndsTheWaitForABodyAnsweredEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lend([]byte("body"), false)
		ctx, cancel := context.WithTimeout(t.Context(), answerPatience/4)
		defer cancel()
		start := time.Now()
		if whole := l.sentWhole(ctx); whole || time.Since(start) != answerPatience/4 {
			t.Errorf("%v after %v, want false after %v", whole, time.Since(start), answerPatience/4)
		}
		start = time.Now()
		if whole := l.sentWhole(t.Context()); whole || time.Since(start) != answerPatience {
			t.Errorf("%v after %v, want false after %v", whole, time.Since(start), answerPatience)
		}
	})
}

// noise is halfSent that gzip does not make smaller.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, len(halfSent))
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
})

func TestA2xxBeforeTheBodyWasSentAcceptsNothingOverHTTP2(t *testing.T) {
	a := newAuthority(t, "ours")
	s := http2Server(t, a, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK) })
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile, cfg.HTTP2 = file(t, a.pem), true
	err := client(t, cfg).Send(t.Context(), halfSent)
	if _, ok := errors.AsType[*earlyError](err); !ok {
		t.Errorf("got %v, want that the body was not sent", err)
	}
}

// A POST that was cut off is told as such, although a write that failed waits for what
// may still be read.
func TestAFailedWriteWaitsForNothingThatCannotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newClient(config("http://webhook"), func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go untilClosed(there)
			return &cutConn{Conn: here}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		if err := c.Send(t.Context(), []byte(list)); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("got %v, want EPIPE", err)
		}
		if took := time.Since(start); took != answerPatience {
			t.Errorf("took %v, want %v", took, answerPatience)
		}
	})
}

// cutConn takes no bytes, and says nothing of its end to who reads it.
type cutConn struct{ net.Conn }

func (*cutConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TLS says goodbye when a connection is closed, into one that the other side has reset:
// that waits for nothing.
func TestClosingABrokenTLSConnectionWaitsForNothing(t *testing.T) {
	a := newAuthority(t, "ours")
	pair := pairFor(t, a, "webhook")
	ca := file(t, a.pem)
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		cfg := config("https://webhook")
		cfg.CAFile = ca
		c, err := newClient(cfg, func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{pair}})
				readRequest(server)
				time.Sleep(time.Minute / 4) // until its write has returned
				broken.Store(true)
				_ = server.CloseWrite()
				untilClosed(there)
			}()
			return &breakingConn{here, &broken}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		if err := c.Send(t.Context(), []byte(list)); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want io.EOF", err)
		}
		if took := time.Since(start); took != time.Minute/4 {
			t.Errorf("took %v, want 15s", took)
		}
	})
}

// breakingConn takes no bytes once it is broken.
type breakingConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c *breakingConn) Write(b []byte) (int, error) {
	if c.broken.Load() {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(b)
}

// A 2xx counts when its header is complete, whatever becomes of its body: the receiver
// has said what it had to say.
func TestAnAcceptedPOSTWhoseAnswerIsCutIsAccepted(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"within the status line": {"HTTP/1.1 200", "EOF"},
		"after the status line":  {"HTTP/1.1 200 OK\r\n", "EOF"},
		"within the header":      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n", "EOF"},
		"before the body":        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", ""},
		"within the body":        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", ""},
		"within a chunk":         {"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf", ""},
		"and is refused":         {"HTTP/1.1 503 X\r\nContent-Length: 10\r\n\r\nhalf", `answered 503 Service Unavailable: "half"`},
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			address := handler(t, func(_ int, conn *net.TCPConn) {
				conns.Add(1)
				readRequest(conn)
				_, _ = io.WriteString(conn, tt.answer)
			})
			c := client(t, config("http://"+address))
			for range 2 {
				err := c.Send(t.Context(), []byte(list))
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
			if n := conns.Load(); n != 2 {
				t.Errorf("%d connections, want 2", n)
			}
		})
	}
}

// An answer of a gigabyte is neither kept nor read.
func TestAnEnormousAnswerIsNotRead(t *testing.T) {
	for _, status := range []int{200, 400} {
		sent := make(chan int64, 1)
		address := handler(t, func(n int, conn *net.TCPConn) {
			readRequest(conn)
			if n == 2 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				return
			}
			_ = conn.SetWriteBuffer(64 << 10)
			fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n", status, 1<<30)
			written, _ := io.Copy(onlyWriter{conn}, io.LimitReader(zeros{}, 1<<30))
			sent <- written
		})
		c := client(t, config("http://"+address))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.Send(t.Context(), []byte(list))
		runtime.ReadMemStats(&after)
		if (err == nil) != (status == 200) {
			t.Errorf("%d: %v", status, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
			t.Errorf("%d: %d bytes allocated for one Send", status, grown)
		}
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d: %d bytes of the answer were taken", status, n)
		}
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Errorf("%d: the next Send: %v", status, err)
		}
	}
}

// onlyWriter hides ReadFrom, whose count of a broken copy is not exact.
type onlyWriter struct{ io.Writer }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// drip answers with text, one byte a second.
func drip(conn net.Conn, text string) {
	for i := range len(text) {
		time.Sleep(time.Second)
		if _, err := conn.Write([]byte(text[i : i+1])); err != nil {
			return
		}
	}
}

func TestASlowDrip(t *testing.T) {
	const header = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX: 0123456789\r\n\r\n"
	for _, tt := range []struct {
		name, atOnce, slowly string
		want                 time.Duration
		accepted             bool
	}{
		{"of the header", "", header, 30 * time.Second, false},
		{"of informational answers", "", strings.Repeat("HTTP/1.1 102 X\r\n\r\n", 10), 30 * time.Second, false},
		{"of the body", header, strings.Repeat("x", 1000), time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialled := 0
				var served sync.WaitGroup
				c, err := newClient(config("http://webhook"), func(context.Context, string, string) (net.Conn, error) {
					dialled++
					here, there := net.Pipe()
					first := dialled == 1
					served.Go(func() {
						defer there.Close()
						readRequest(there)
						if !first {
							_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
							untilClosed(there)
							return
						}
						_, _ = io.WriteString(there, tt.atOnce)
						drip(there, tt.slowly)
					})
					return here, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err = c.Send(t.Context(), []byte(list))
				if took := time.Since(start); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if tt.accepted {
					if err != nil {
						t.Error(err)
					}
				} else {
					wantTimeout(t, err, "POST http://webhook: not answered within 30s (Request_Timeout)")
				}
				start = time.Now()
				if err := c.Send(t.Context(), []byte(list)); err != nil {
					t.Errorf("the next Send: %v", err)
				}
				if took := time.Since(start); took != 0 || dialled != 2 {
					t.Errorf("the next Send took %v, and %d connections were made, want 2", took, dialled)
				}
				c.Close()
				served.Wait()
			})
		})
	}
}

// Informational answers count towards the bound of the header.
func TestAFloodOfInformationalAnswersIsCut(t *testing.T) {
	address := handler(t, func(n int, conn *net.TCPConn) {
		readRequest(conn)
		for n == 1 {
			if _, err := io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
				return
			}
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	c := client(t, config("http://"+address))
	err := c.Send(t.Context(), []byte(list))
	want := "POST http://" + address + ": net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Errorf("the next Send: %v", err)
	}
}

// A 101 makes another protocol of the connection: no answer to a POST, and the
// connection is given up.
func TestASwitchOfProtocolsIsNotAccepted(t *testing.T) {
	var conns atomic.Int32
	address := handler(t, func(_ int, conn *net.TCPConn) {
		conns.Add(1)
		readRequest(conn)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		untilClosed(conn)
	})
	c := client(t, config("http://"+address))
	for range 2 {
		err := c.Send(t.Context(), []byte(list))
		if want := "POST http://" + address + ": answered 101 Switching Protocols"; err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// More than one answer to one request: the rest is not taken for the answer to the next.
func TestAnswersThatNobodyAskedForAreNotTakenForTheNext(t *testing.T) {
	var conns atomic.Int32
	address := handler(t, func(n int, conn *net.TCPConn) {
		conns.Add(1)
		readRequest(conn)
		const accepted = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		if n == 1 {
			_, _ = io.WriteString(conn, strings.Repeat(accepted, 3))
			untilClosed(conn)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
	})
	c := client(t, config("http://"+address))
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard) // where net/http tells of them
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), []byte(list)); err == nil {
		t.Error("the second POST counts as accepted, and nobody has read it")
	}
}

// The same with the order of things held: the next request is given the connection while
// the answers that nobody asked for wait in net/http's buffer.
func TestAnAnswerThatWasThereBeforeItsRequestAcceptsNothing(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	bound := &boundConn{Conn: here, over: make(chan struct{}), forget: func() bool { return true }}
	defer bound.Close()
	say := func(what string) {
		t.Helper()
		go func() { _, _ = io.WriteString(there, what) }()
		if _, err := io.ReadFull(bound, make([]byte, len(what))); err != nil {
			t.Fatal(err)
		}
	}
	say("HTTP/1.1 200 OK\r\n")
	l := lend([]byte(list), false)
	l.gotConn(httptrace.GotConnInfo{Conn: bound})
	if l.answered() {
		t.Error("what was read before the request counts as its answer")
	}
	say("HTTP/1.1 200 OK\r\n")
	if !l.answered() {
		t.Error("what was read after it does not count")
	}
}

// A peer that vanished without a word, behind an address that lives: the request waits
// for Request_Timeout, and the next one has a new connection.
func TestADeadConnectionIsDroppedAfterRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		dialled := 0
		c, err := newClient(config("http://webhook"), func(context.Context, string, string) (net.Conn, error) {
			dialled++
			here, middle := net.Pipe()
			there, end := net.Pipe()
			go relay(middle, there, &dead)
			go relay(there, middle, &dead)
			go func() {
				for readRequest(end); ; readRequest(end) {
					if _, err := io.WriteString(end, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
						return
					}
				}
			}()
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Fatal(err)
		}
		dead.Store(true)
		start := time.Now()
		wantTimeout(t, c.Send(t.Context(), []byte(list)), "POST http://webhook: not answered within 30s (Request_Timeout)")
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v, want 30s", took)
		}
		dead.Store(false)
		if err := c.Send(t.Context(), []byte(list)); err != nil || dialled != 2 {
			t.Errorf("%v over %d connections, want nil over 2", err, dialled)
		}
		c.Close()
	})
}

// The receiver closes a connection that has been idle, in the very moment in which it
// is used again. It has read nothing; but it might have, and nothing on this side can
// tell: the POST fails, and whoever sent it decides.
func TestAPOSTThatWasWrittenIsNeverRepeatedHere(t *testing.T) {
	var requests atomic.Int32
	address := handler(t, func(n int, conn *net.TCPConn) {
		readRequest(conn)
		requests.Add(1)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		readRequest(conn)
		requests.Add(1)
		if n%2 == 0 {
			reset(conn)
		}
	})
	cfg := config("http://" + address)
	c := client(t, cfg)
	for n := range 4 {
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Fatal(err)
		}
		err := c.Send(t.Context(), []byte(list))
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v, want io.EOF or ECONNRESET", err)
		}
		if got, want := requests.Load(), int32(2*n+2); got != want {
			t.Fatalf("%d requests arrived, want %d", got, want)
		}
	}
}

// A connection whose end is known before anything was written costs nothing.
func TestAConnectionClosedWhileIdleIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled, requests := 0, 0
		c, err := newClient(config("http://webhook"), func(context.Context, string, string) (net.Conn, error) {
			dialled++
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				readRequest(there)
				requests++
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}()
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if dialled != 5 || requests != 5 {
			t.Errorf("%d connections, %d requests, want 5 and 5", dialled, requests)
		}
		c.Close()
	})
}
