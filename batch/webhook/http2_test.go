// Tests of HTTP/2.

package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// http2Server serves h over TLS by a, HTTP/2 offered.
func http2Server(t *testing.T, a *authority, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := unstarted(t, h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pairFor(t, a, "127.0.0.1")}}
	s.EnableHTTP2 = true
	return s
}

func pairFor(t *testing.T, a *authority, name string) tls.Certificate {
	t.Helper()
	certPEM, keyPEM := a.issue(t, name)
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestHTTP2SendsAllOverOneConnection(t *testing.T) {
	a := newAuthority(t, "ours")
	big := strings.Repeat(list, 20000) // beyond every window and buffer
	var conns, requests atomic.Int32
	s := http2Server(t, a, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		if want := sha256.Sum256([]byte(big)); r.Proto != "HTTP/2.0" || string(sum.Sum(nil)) != string(want[:]) || r.ContentLength != int64(len(big)) {
			t.Errorf("%s, %d bytes announced, or another body", r.Proto, r.ContentLength)
		}
	})
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile, cfg.HTTP2 = file(t, a.pem), true
	c := client(t, cfg)
	if err := c.Send(t.Context(), []byte(big)); err != nil {
		t.Fatal(err)
	}
	var senders sync.WaitGroup
	for range 10 {
		senders.Go(func() {
			if err := c.Send(t.Context(), []byte(big)); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	if conns.Load() != 1 || requests.Load() != 11 {
		t.Errorf("%d requests over %d connections, want 11 over 1", requests.Load(), conns.Load())
	}
}

func TestHTTP2FallsBackToHTTP1(t *testing.T) {
	a := newAuthority(t, "ours")
	proto := make(chan string, 1)
	s := http2Server(t, a, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		proto <- r.Proto
	})
	s.EnableHTTP2 = false
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile, cfg.HTTP2 = file(t, a.pem), true
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-proto; got != "HTTP/1.1" {
		t.Errorf("came by %s", got)
	}
}

// The body is the caller's again when Send returns, whatever the connection does: run
// with the race detector.
func TestHTTP2BodyIsNotReadAfterSend(t *testing.T) {
	a := newAuthority(t, "ours")
	s := http2Server(t, a, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable) // and does not read the body
	})
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile, cfg.HTTP2 = file(t, a.pem), true
	c := client(t, cfg)
	body := []byte(strings.Repeat(list, 20000))
	for range 20 {
		if err := c.Send(t.Context(), body); err == nil {
			t.Fatal("Send: nil")
		}
		for i := range body {
			body[i]++
		}
	}
}

func TestHTTP2CertificateAuthorityIsReadAgain(t *testing.T) {
	a := newAuthority(t, "new")
	proto := make(chan string, 1)
	s := http2Server(t, a, func(w http.ResponseWriter, r *http.Request) { proto <- r.Proto })
	s.StartTLS()
	cfg := config(s.URL)
	ca := file(t, newAuthority(t, "old").pem)
	cfg.CAFile, cfg.HTTP2 = ca, true
	c := client(t, cfg)
	overwrite(t, ca, a.pem)
	if err := c.Send(t.Context(), []byte(list)); err == nil {
		t.Fatal("this Send is the one that fails and reads the file")
	}
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-proto; got != "HTTP/2.0" {
		t.Errorf("came by %s", got)
	}
}

// A connection that is dead without a word is found by a ping after 10 s of silence and
// 5 s of waiting, and the next request has a new one.
func TestHTTP2FindsADeadConnection(t *testing.T) {
	a := newAuthority(t, "ours")
	pair := pairFor(t, a, "webhook")
	ca := file(t, a.pem)
	synctest.Test(t, func(t *testing.T) {
		listener := &pipeListener{conns: make(chan net.Conn)}
		server := &http.Server{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}},
		}
		go func() { _ = server.ServeTLS(listener, "", "") }()
		var frozen atomic.Bool
		dialled := 0
		cfg := config("https://webhook")
		cfg.CAFile, cfg.HTTP2 = ca, true
		c, err := newClient(cfg, func(context.Context, string, string) (net.Conn, error) {
			dialled++
			here, middle := net.Pipe()
			there, end := net.Pipe()
			go relay(middle, there, &frozen)
			go relay(there, middle, &frozen)
			listener.conns <- end
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Fatal(err)
		}
		frozen.Store(true)
		start := time.Now()
		if err := c.Send(t.Context(), []byte(list)); err == nil || !strings.Contains(err.Error(), "client connection lost") {
			t.Errorf("got %v, want the connection lost", err)
		}
		if took := time.Since(start); took != silence+pingTimeout {
			t.Errorf("took %v, want %v", took, silence+pingTimeout)
		}
		frozen.Store(false)
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Error(err)
		}
		if dialled != 2 {
			t.Errorf("%d connections, want 2", dialled)
		}
		c.Close()
		listener.Close()
		server.Close()
	})
}

// A connection that takes no more bytes holds up no Send beyond Request_Timeout.
func TestHTTP2TimeoutWhileTheBodyIsStuck(t *testing.T) {
	a := newAuthority(t, "ours")
	pair := pairFor(t, a, "webhook")
	ca := file(t, a.pem)
	synctest.Test(t, func(t *testing.T) {
		listener := &pipeListener{conns: make(chan net.Conn)}
		server := &http.Server{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}},
		}
		go func() { _ = server.ServeTLS(listener, "", "") }()
		cfg := config("https://webhook")
		cfg.CAFile, cfg.HTTP2, cfg.RequestTimeout = ca, true, 5*time.Second
		stuck := make(chan struct{})
		c, err := newClient(cfg, func(context.Context, string, string) (net.Conn, error) {
			here, end := net.Pipe()
			listener.conns <- end
			return &stuckConn{Conn: here, stuck: stuck, closed: make(chan struct{})}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Fatal(err)
		}
		// The first stream must be gone: its clean-up would wait for a mutex that the
		// stuck write holds, and time stands still while anybody waits for a mutex.
		synctest.Wait()
		close(stuck)
		start := time.Now()
		wantTimeout(t, c.Send(t.Context(), []byte(strings.Repeat(list, 1000))), "POST https://webhook: not answered within 5s (Request_Timeout)")
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
		c.Close()
		listener.Close()
		server.Close()
	})
}

// stuckConn takes no bytes any more once stuck is closed.
type stuckConn struct {
	net.Conn
	stuck  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Write(b []byte) (int, error) {
	select {
	case <-c.stuck:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Write(b)
	}
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// relay copies from one to the other; what it reads while frozen is lost.
func relay(from, to net.Conn, frozen *atomic.Bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			to.Close()
			return
		}
		if !frozen.Load() {
			if _, err := to.Write(b[:n]); err != nil {
				from.Close()
				return
			}
		}
	}
}

// pipeListener gives a server the connections that a test makes.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestHTTP2NeedsTLS(t *testing.T) {
	cfg := config("http://webhook")
	cfg.HTTP2 = true
	_, err := New(cfg)
	if want := "HTTP2: On, but URL begins with http://, and HTTP/2 is used over TLS only: use https:// or set HTTP2 Off"; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}
