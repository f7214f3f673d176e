// Package webhook sends batches of audit events to a webhook: HTTP and TLS, and what
// an answer means. It knows nothing of events, retries or queues.
package webhook

// This file holds the Client.

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// shortestSecret is the length from which the value of a configured header is taken for
// a secret. To hide shorter ones would only garble errors.
const shortestSecret = 8

// Client sends to one URL, over connections of its own. Its methods may be called
// from any goroutine.
type Client struct {
	dest    *destination
	target  string       // the URL without its query, for errors
	request http.Request // what all requests have in common
	timeout time.Duration
	token   *tokenFile // nil: none
	secrets []string   // credentials that do not change
	http2   bool
	gzip    bool
	pool    sync.Pool // of *compressed

	rt   http.RoundTripper
	tr   *connections
	life context.Context
	end  context.CancelCauseFunc
}

// New checks cfg and reads its files; it connects to nothing and starts no goroutine.
// The error joins every fault, each naming the key, the value and the remedy, but no
// credentials.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlivePeriod}).DialContext)
}

func newClient(cfg Config, dial dialFunc) (*Client, error) {
	d, err := cfg.check()
	if err != nil {
		return nil, err
	}
	c := &Client{timeout: cfg.RequestTimeout, dest: d, secrets: d.secrets(), http2: cfg.HTTP2, gzip: cfg.Gzip}
	c.life, c.end = context.WithCancelCause(context.Background())
	if d.tokenFile != "" {
		if c.token, err = newTokenFile(d.names.token, d.tokenFile, cfg.Warn); err != nil {
			return nil, err
		}
	}
	if c.rt, c.tr, err = newRoundTripper(&cfg, d, c.token, dial, c.life); err != nil {
		return nil, err
	}
	shown := *d.target
	shown.RawQuery, shown.ForceQuery = "", false
	c.target = shown.String()
	c.request = http.Request{
		Method: http.MethodPost,
		URL:    d.target,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Shared by all requests: net/http and client-go's wrappers only read it.
		Header: http.Header{
			"Content-Type": {"application/json"},
			"User-Agent":   {cfg.UserAgent},
		},
	}
	if cfg.Gzip {
		c.request.Header.Set("Content-Encoding", "gzip")
	}
	for _, h := range cfg.Headers {
		c.request.Header.Set(h.Name, h.Value)
		if len(h.Value) >= shortestSecret {
			c.secrets = append(c.secrets, h.Value)
		}
	}
	return c, nil
}

// Send posts body and returns nil if the answer is 2xx, an *Error if it is something
// else, and otherwise an error that wraps what broke. A 2xx that comes before the whole
// body was sent, or was there before the request, counts as no answer. Redirects are not followed.
//
// It blocks until the answer is there, for RequestTimeout at most, or until ctx is
// done. An answer whose body does not end counts all the same, a second after its
// header at the latest. body is not read any more once Send has returned.
//
// A POST that failed may have been received: only a connection that was closed while
// idle, before any of the request was written, is replaced here. One that was answered
// 5xx carries no further request.
func (c *Client) Send(ctx context.Context, body []byte) error {
	if len(body) == 0 {
		return errors.New("nothing to send: the body is empty")
	}
	if c.life.Err() != nil {
		return c.noAnswer(nil, closedError{})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, &timeoutError{after: c.timeout})
	defer cancel()

	wire := body
	if c.gzip {
		z := c.compress(body)
		defer c.pool.Put(z)
		wire = z.Bytes()
	}
	l := lend(wire, c.http2)
	// Deferred calls run last to first: everything below has ended the request by then.
	defer l.takeBack()

	resp, err := c.roundTrip(withTrace(ctx, l), l, int64(len(wire)))
	if err != nil {
		causes := []error{err}
		if cause := context.Cause(ctx); cause != nil {
			causes[0] = cause // whatever the connection says that was broken off for it
		} else if alert := alertOn(l.connection()); alert != nil {
			causes[0] = alert
		} else if lost := lostBy(l.connection()); lost != nil && !errors.Is(err, lost) {
			causes = append(causes, lost)
		}
		cancel()
		// The next POST shall not meet a connection to the same dead end.
		c.tr.closeIdle()
		return c.noAnswer(body, causes...)
	}
	ok := resp.StatusCode >= 200 && resp.StatusCode <= 299
	if l.gotSpent() || ok && !(l.answered() && l.sentWhole(ctx)) {
		cancel()
		resp.Body.Close()
		c.tr.closeIdle()
		return c.noAnswer(body, &earlyError{resp.StatusCode})
	}
	// Behind a balancer the connection leads to the same backend again. Told before the
	// answer's body is read: from its end on, another Send may be given the connection.
	spent := resp.StatusCode >= 500 && l.spend()
	message := finish(resp, !ok, cancel)
	if ok {
		return nil
	}
	switch {
	case resp.StatusCode >= 500 && !spent:
		// Over HTTP/2 others are under way on the connection; they end on it.
		c.tr.closeIdle()
	case c.dest.hasClientCertificate() && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden):
		// A connection keeps the client certificate that it was made with, which may
		// have expired since, or be replaced.
		c.tr.closeIdle()
	}
	return c.refused(resp, message, body)
}

// roundTrip sends the lent body, of length bytes on the wire.
func (c *Client) roundTrip(ctx context.Context, l *loan, length int64) (*http.Response, error) {
	body := l.reader()
	for {
		l.getConn("") // what fails before net/http does so has none
		req := c.request.WithContext(ctx)
		req.Body, req.GetBody, req.ContentLength = body, l.another, length
		// The round tripper and not an http.Client: no redirects, no cookies, and no
		// url.Error with the whole URL in its text.
		resp, err := c.rt.RoundTrip(req)
		if err == nil || !l.gotSpent() {
			return resp, err
		}
		// Nothing of the request was written. net/http tries again by itself then, but not
		// if the other side has closed the connection in the same moment.
		if body, err = l.another(); err != nil {
			return nil, err
		}
	}
}

// Close closes all connections; a Send under way fails, and so does every later one.
// It does not block. The goroutines of the connections end by themselves right after.
func (c *Client) Close() {
	c.end(closedError{})
	c.tr.closeIdle()
}

func (c *Client) post() string { return "POST " + c.target + ": " }

// Target is the webhook's URL without its query, which may hold a credential.
func (c *Client) Target() string { return c.target }

// Destination is the webhook's URL with its query: the same for two clients that
// send to the same place. It may hold a credential and is not for logs.
func (c *Client) Destination() string { return c.dest.target.String() }

// Host is the webhook's host, with the port if the URL has one.
func (c *Client) Host() string { return c.dest.target.Host }

// hidden is what no error may show.
func (c *Client) hidden() []string {
	if c.token == nil {
		return c.secrets
	}
	token, _ := c.token.state()
	return append([]string{token}, c.secrets...)
}

// noAnswer makes the error of a POST that ended with causes.
func (c *Client) noAnswer(body []byte, causes ...error) error {
	text := causes[0].Error()
	for _, cause := range causes[1:] {
		text += " (" + cause.Error() + ")"
	}
	if !strings.Contains(text, "malformed") {
		// Only net/http's "malformed …" quotes the other side; the rest are words
		// that an event may well hold too, as "connection refused".
		body = nil
	}
	text = c.post() + excerpt([]byte(text), maxErrorText, c.hidden(), body)
	if hint := c.tlsHint(causes[0]); hint != "" {
		text += " (" + hint + ")"
	}
	return &transportError{text: text, causes: causes}
}

// refused makes the error of an answer other than 2xx.
func (c *Client) refused(resp *http.Response, message, body []byte) error {
	e := &Error{
		Status:  resp.StatusCode,
		Message: excerpt(message, maxMessage, c.hidden(), body),
		target:  c.target,
	}
	e.retryAfter, e.hasRetryAfter = parseRetryAfter(resp.Header, time.Now())
	switch {
	case e.Status >= 300 && e.Status <= 399:
		e.hint = "redirects are not followed: " + c.dest.names.redirect
	case e.Status == http.StatusUnauthorized && c.token != nil:
		c.token.refused()
		e.hint = "the token is read again from " + c.dest.names.token
		if _, err := c.token.state(); err != nil {
			e.hint = err.Error()
		}
	case e.Status == http.StatusUnsupportedMediaType && c.gzip:
		e.hint = "Compress is gzip, which the receiver may not take: try Compress none"
	case e.Status == http.StatusUnauthorized && c.request.Header.Get("Authorization") != "":
		e.hint = "the Authorization in Headers is not accepted"
	case e.Status == http.StatusUnauthorized:
		e.hint = c.dest.refusedHint()
	}
	return e
}
