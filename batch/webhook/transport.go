// This file makes the connections: one http.Transport per Client, its TLS, and how
// both end.

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	keepAlivePeriod  = 15 * time.Second

	// idleTimeout is below the idle limits that receivers and balancers commonly
	// have (60 s and more), so that this side closes first and no POST meets a
	// connection that is just being closed.
	idleTimeout = 30 * time.Second

	// One HTTP/2 connection carries all requests, so a dead one must be found sooner
	// than by Request_Timeout: silent for so long, it is sent a ping, and closed if
	// that is not answered in time.
	silence     = 10 * time.Second
	pingTimeout = 5 * time.Second

	// headerRoom is what a request's header may add to a body in the write buffer.
	headerRoom = 16 << 10
	// plainBuffer is the write buffer of a connection without TLS: a smaller request
	// goes in one write, of a larger one what does not fit goes from the body itself
	// (boundConn.ReadFrom).
	plainBuffer = 64 << 10
	// maxAnswerHeader bounds an answer's header.
	maxAnswerHeader = 64 << 10
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newRoundTripper builds what sends requests to d. Certificates and credentials are
// client-go's: rest.TLSConfigFor and rest.HTTPWrappersForConfig.
//
// The http.Transport between the two is not the one that rest.HTTPClientFor gives:
// that one is shared by all of a process that have the same TLS settings (or is
// http.DefaultTransport), so closing one instance's connections would close another's;
// with a client certificate it comes with a goroutine that no call ends; and its write
// buffer of 4 kB makes hundreds of system calls of one body.
func newRoundTripper(cfg *Config, d *destination, token *tokenFile, dial dialFunc, life context.Context) (http.RoundTripper, *connections, error) {
	rc := rest.CopyConfig(d.rest)
	if token != nil {
		// Not rest.Config.BearerTokenFile: its round tripper would go on with a
		// refused token until the minute is over.
		rc.Wrap(transport.TokenSourceWrapTransport(token.cached))
	}
	tlsConfig, err := rest.TLSConfigFor(rc)
	if err != nil {
		return nil, nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(cfg.HTTP2)
	c := &connections{http2: cfg.HTTP2}
	if len(rc.CAData) == 0 && rc.CAFile != "" {
		c.ca, err = newRotated(func() (authorities, error) { return readCA(d.names.ca, rc.CAFile) }, cfg.Warn)
		if err != nil {
			return nil, nil, err
		}
		c.trusted, c.checked = c.ca.good.pem, time.Now()
		tlsConfig.RootCAs = c.ca.good.pool
	}
	if cert, key := d.clientCertificate(); cert.file != "" && len(cert.data) == 0 && key.file != "" && len(key.data) == 0 {
		// client-go reads these again, too, but a broken one would end delivery.
		if c.pair, err = newRotated(func() (*tls.Certificate, error) { return readKeyPair(cert, key) }, cfg.Warn); err != nil {
			return nil, nil, err
		}
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.pair.read(), nil }
	}
	bufferSize := plainBuffer
	if d.target.Scheme == "https" {
		bufferSize = cfg.MaxBodyBytes + headerRoom
	}
	c.current = &epoch{Transport: &http.Transport{
		Proxy:                  d.proxy,
		DialContext:            boundToLife(dial, life),
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    handshakeTimeout,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout},
		DisableCompression:     true,
		MaxIdleConns:           cfg.MaxConcurrentRequests,
		MaxIdleConnsPerHost:    cfg.MaxConcurrentRequests,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
		WriteBufferSize:        bufferSize,
		// No ResponseHeaderTimeout: the context of each request bounds all of it.
	}}
	rt, err := rest.HTTPWrappersForConfig(rc, c)
	if err != nil {
		return nil, nil, err
	}
	return rt, c, nil
}

// connections is the innermost round tripper: a transport that is replaced when the
// file of certificate authorities has changed, and when its connections are not to be
// used any more.
type connections struct {
	http2 bool
	pair  *rotated[*tls.Certificate] // nil: no client certificate, or not of files
	ca    *rotated[authorities]      // nil: not of a file

	mu      sync.Mutex // guards the following
	trusted []byte     // the authorities of current
	checked time.Time  // when their file was read

	using   sync.Mutex // guards the following; held for moments only
	current *epoch
}

// epoch is a transport with the number of requests that wait for an answer on it.
// Its idle connections are not closed meanwhile: net/http calls a connection idle a
// moment before it hands out an answer without a body, and when it is closed in that
// moment the answer is lost, and the request, which was accepted, is sent again.
type epoch struct {
	*http.Transport
	waiting int
	retired bool // no more requests begin on it
}

func (c *connections) begin() *epoch {
	c.using.Lock()
	defer c.using.Unlock()
	c.current.waiting++
	return c.current
}

func (c *connections) end(g *epoch) {
	c.using.Lock()
	defer c.using.Unlock()
	g.waiting--
	if g.retired && g.waiting == 0 {
		g.CloseIdleConnections()
	}
}

func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	c.checkCA(filePeriod)
	g := c.begin()
	resp, err := g.RoundTrip(req)
	c.end(g)
	if err == nil {
		return resp, nil
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		// It serves the next POST; this one is tried again by whoever sent it.
		c.checkCA(0)
	}
	if c.http2 {
		c.replace(g, g.Clone())
	}
	return nil, err
}

// checkCA replaces the transport by one that trusts what the file of authorities holds
// now, if that was read longer ago than age and is something else. What is under way on
// the old one goes on.
func (c *connections) checkCA(age time.Duration) {
	if c.ca == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.checked) < age {
		return
	}
	c.checked = now
	ca := c.ca.read()
	if bytes.Equal(ca.pem, c.trusted) {
		return
	}
	for {
		c.using.Lock()
		used := c.current
		c.using.Unlock()
		next := used.Clone()
		next.TLSClientConfig.RootCAs = ca.pool
		if c.replace(used, next) {
			break
		}
	}
	c.trusted = ca.pem
}

// replace makes next the transport of the requests to come, unless used is it no more,
// and reports whether it did.
// What is under way on used goes on.
//
// It follows each failure over HTTP/2: the streams of a connection that has not answered
// in time end a little after their requests, so that it is not idle yet when the idle ones
// are closed, and a new request would be put on it again.
func (c *connections) replace(used *epoch, next *http.Transport) bool {
	c.using.Lock()
	defer c.using.Unlock()
	if c.current != used {
		return false
	}
	c.retireLocked(next)
	return true
}

func (c *connections) retireLocked(next *http.Transport) {
	used := c.current
	c.current = &epoch{Transport: next}
	used.retired = true
	if used.waiting == 0 {
		used.CloseIdleConnections()
	}
}

// closeIdle sees to it that the next request has a new connection.
func (c *connections) closeIdle() {
	c.using.Lock()
	defer c.using.Unlock()
	if c.current.waiting == 0 {
		c.current.CloseIdleConnections()
		return
	}
	c.retireLocked(c.current.Clone())
}

// boundToLife ends dials and connections with life. net/http itself ends idle
// connections and dials that no request waits for any more; the rest, TLS handshakes
// among it, would outlive a closed Client by up to 20 s.
func boundToLife(dial dialFunc, life context.Context) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &boundConn{Conn: conn, over: make(chan struct{})}
		c.forget = context.AfterFunc(life, func() { c.end(); conn.Close() })
		return c, nil
	}
}

// boundConn is a connection that is closed when its Client is, and that remembers what
// the other side did to it.
type boundConn struct {
	net.Conn
	forget func() bool
	lost   atomic.Pointer[error]
	heard  atomic.Uint64 // reads that brought something
	turn   atomic.Int64  // attempts that were given it, negative once it is spent

	once sync.Once
	over chan struct{} // closed once nothing more will be read
}

func (c *boundConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Add(1)
	}
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			lost := err // err itself would be allocated by every Read
			c.lost.CompareAndSwap(nil, &lost)
		}
		c.end()
	}
	return n, err
}

// Write does not return an error of the other side's making before all that it said has
// been read, or for answerPatience. A receiver that refuses a body half read closes with
// the rest unread, which resets the connection: net/http gives up at the failed write,
// while the status that says why (413, a TLS alert) waits to be read.
func (c *boundConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		patience := time.NewTimer(answerPatience)
		defer patience.Stop()
		select {
		case <-c.over:
		case <-patience.C:
		}
	}
	return n, err
}

// ReadFrom is what net/http calls for the part of a request that its buffer does not
// hold, if there is no TLS: bytes of the body are written from where they are.
func (c *boundConn) ReadFrom(r io.Reader) (int64, error) {
	w := (*writeOnly)(c)
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(io.WriterTo); ok {
			// The limit is the length of the body, so it does not end sooner.
			n, err := body.WriteTo(w)
			limited.N -= n
			return n, err
		}
	}
	return io.Copy(w, r)
}

// writeOnly is a boundConn without ReadFrom.
type writeOnly boundConn

func (c *writeOnly) Write(b []byte) (int, error) { return (*boundConn)(c).Write(b) }

// SetWriteDeadline is what crypto/tls does before its goodbye, a write within Close that
// must not wait: whoever closes reads no more. Nobody else sets one.
func (c *boundConn) SetWriteDeadline(t time.Time) error {
	c.end()
	return c.Conn.SetWriteDeadline(t)
}

func (c *boundConn) Close() error {
	c.forget()
	c.end()
	return c.Conn.Close()
}

// end tells that nothing more will be read.
func (c *boundConn) end() { c.once.Do(func() { close(c.over) }) }

// alertOn returns the TLS alert that the other side ended conn with, nil if it did not.
// conn has failed a request. net/http may know nothing of an alert that meets the writing
// of a body: it fails at the write. Over HTTP/2 it does, and conn may live.
func alertOn(conn net.Conn) error {
	c, ok := conn.(*tls.Conn)
	if !ok || c.ConnectionState().NegotiatedProtocol == "h2" {
		return nil
	}
	// crypto/tls repeats an alert to each further Read, and that Read ends at once.
	_ = c.SetReadDeadline(time.Now())
	_, err := c.Read(make([]byte, 1))
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return alert
	}
	return nil
}

// lostBy returns why reading from conn failed, nil if it did not. net/http often says
// less: while a body is being written its read loop may be the first to see a reset; it
// closes the connection, and the POST fails with "use of closed network connection".
func lostBy(conn net.Conn) error {
	if bound := boundUnder(conn); bound != nil {
		if lost := bound.lost.Load(); lost != nil {
			return *lost
		}
	}
	return nil
}

// boundUnder returns the boundConn that conn is or runs over, nil if there is none.
func boundUnder(conn net.Conn) *boundConn {
	for {
		switch c := conn.(type) {
		case *tls.Conn:
			conn = c.NetConn()
		case *boundConn:
			return c
		default:
			return nil
		}
	}
}
