// This file lends a caller's bytes to net/http and takes them back.

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http/httptrace"
	"sync"
)

// errBrokenOff is a POST over HTTP/2 that the receiver gave up while it was being sent.
var errBrokenOff = errors.New("the receiver broke the HTTP/2 request off (RST_STREAM or GOAWAY) after its body was begun")

// loan is one body lent to net/http for one Send.
//
// RoundTrip may return while its connection's write loop still reads the body, or is
// yet to begin: after an early answer, a timeout or a broken connection. The usual cure
// is to wait for the body's Close, but a body type of our own makes net/http send the
// header by itself and copy the rest through 32 kB at a time. So the body stays a
// bytes.Reader, and the trace hooks that net/http calls on the write loop's goroutine
// just before and just after it reads the body tell when it is in use.
//
// Over HTTP/2 net/http copies the body piece by piece anyway, and a connection that
// takes no more bytes would make that wait a long one. There a guarded reader is used.
type loan struct {
	body    []byte
	guarded bool

	mu       sync.Mutex
	ended    sync.Cond
	readers  []*bytes.Reader // one for each attempt: a stale connection is replaced once
	reading  int             // attempts between wroteHeaders and wroteRequest
	sent     bool            // the last attempt was written whole
	conn     net.Conn        // of the last attempt
	heard    uint64          // what had been read from conn before the attempt
	turn     int64           // of conn, negative if it was spent, and closed before the attempt began
	trace    httptrace.ClientTrace
	oneSlice [1]*bytes.Reader
	first    bytes.Reader
}

func lend(body []byte, guarded bool) *loan {
	l := &loan{body: body, guarded: guarded}
	l.ended.L = &l.mu
	l.trace.GetConn = l.getConn
	l.trace.GotConn = l.gotConn
	l.trace.WroteRequest = l.wroteRequest
	if !guarded {
		l.trace.WroteHeaders = l.wroteHeaders
	}
	l.first.Reset(body)
	l.readers = append(l.oneSlice[:0], &l.first)
	return l
}

// reader is the body of the first attempt.
func (l *loan) reader() io.ReadCloser { return l.lent(&l.first) }

func (l *loan) lent(r *bytes.Reader) io.ReadCloser {
	if l.guarded {
		return guardedReader{l, r}
	}
	return io.NopCloser(r)
}

// guardedReader reads under the loan's lock, so that takeBack needs to wait for no one.
type guardedReader struct {
	l *loan
	r *bytes.Reader
}

func (g guardedReader) Read(p []byte) (int, error) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	return g.r.Read(p)
}

func (g guardedReader) Close() error { return nil }

// another is the body of a further attempt (http.Request.GetBody).
//
// Over HTTP/1.1 net/http asks for it only if no byte of the request was written. Over
// HTTP/2 it does so after RST_STREAM and GOAWAY as well, PROTOCOL_ERROR among them, from
// a receiver that may have read the body and stored it. There a body of which anything
// was read is not given out again: whoever sent it decides.
func (l *loan) another() (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overHTTP2() && l.wasRead() {
		return nil, errBrokenOff
	}
	r := bytes.NewReader(l.body)
	l.readers = append(l.readers, r)
	return l.lent(r), nil
}

// overHTTP2 reports whether the last attempt was over HTTP/2.
func (l *loan) overHTTP2() bool {
	conn, ok := l.conn.(*tls.Conn)
	return ok && conn.ConnectionState().NegotiatedProtocol == "h2"
}

func (l *loan) wasRead() bool {
	for _, r := range l.readers {
		if r.Len() < len(l.body) {
			return true
		}
	}
	return false
}

func (l *loan) getConn(string) {
	l.mu.Lock()
	l.turn = 0
	l.mu.Unlock()
}

// gotConn is called when an attempt has its connection, before anything is written to it.
// Over HTTP/1.1 no one else has it meanwhile, so this is where it can be closed with
// nothing lost: net/http takes another one if it could not write a byte.
func (l *loan) gotConn(info httptrace.GotConnInfo) {
	bound := boundUnder(info.Conn)
	l.mu.Lock()
	l.conn, l.turn, l.sent = info.Conn, 0, false
	if bound != nil {
		l.turn, l.heard = bound.turn.Add(1), bound.heard.Load()
	}
	spent := l.turn < 0
	l.mu.Unlock()
	if spent {
		info.Conn.Close()
	}
}

// spend sees to it that no further request begins on the connection that brought the
// answer, and reports whether it is one of those: over HTTP/2 others share it. It is closed
// by the next attempt that is given it, or when it has been idle for long.
//
// To close it here would cut another Send's request: if the answer has no body, net/http
// passes the connection on before it hands the answer out. If it has done so already, the
// connection is left to whoever has it. Were it closed after that one, its answer could be
// lost in the same way.
func (l *loan) spend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bound := boundUnder(l.conn)
	if bound == nil || l.overHTTP2() {
		return false
	}
	bound.turn.CompareAndSwap(l.turn, math.MinInt64)
	return true
}

// gotSpent says whether the last attempt was given a spent connection, so that nothing of
// it was written.
func (l *loan) gotSpent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turn < 0
}

// answered says whether anything was read from the connection since the last attempt was
// given it. If nothing was, the answer had been lying there, sent to nobody's request: net/http
// throws such bytes away, but not if the next request is quicker than it looks.
// Over HTTP/2 an answer names its request, so there is nothing to ask.
func (l *loan) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bound := boundUnder(l.conn)
	return bound == nil || l.overHTTP2() || bound.heard.Load() != l.heard
}

// connection returns the last one that was used, or nil.
func (l *loan) connection() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *loan) wroteHeaders() {
	l.mu.Lock()
	l.reading++
	l.mu.Unlock()
}

func (l *loan) wroteRequest(info httptrace.WroteRequestInfo) {
	l.mu.Lock()
	if l.reading > 0 { // zero when the request failed before its header was out
		l.reading--
	}
	l.sent = l.sent || info.Err == nil
	l.ended.Broadcast()
	l.mu.Unlock()
}

// sentWhole says whether net/http has written the body to its end. It waits for that, for
// answerPatience at most and until ctx is done: whoever has read the whole of it may answer
// before the writer knows.
func (l *loan) sentWhole(ctx context.Context) bool {
	if l.isSent() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.sent && ctx.Err() == nil {
		l.ended.Wait()
	}
	return l.sent
}

func (l *loan) isSent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// takeBack returns once nobody reads the body, and makes sure that nobody will: an
// attempt that begins later finds its reader empty, and fails on a connection that is
// closed anyway. The caller must have ended the request (its answer's body closed, or
// its context cancelled), so that a write under way returns at once.
func (l *loan) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.reading > 0 {
		l.ended.Wait()
	}
	for _, r := range l.readers {
		r.Reset(nil)
	}
	l.body = nil
}

// withTrace makes net/http call the loan's hooks for requests made with the context.
func withTrace(ctx context.Context, l *loan) context.Context {
	return httptrace.WithClientTrace(ctx, &l.trace)
}
