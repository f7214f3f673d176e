package e2e

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// This file is a proxy for the tests.

// proxy is a forward proxy, which also takes CONNECT. Whatever host it is asked for,
// it connects to one receiver.
type proxy struct {
	*httptest.Server
	receiver string

	requests, tunnels, dials atomic.Int64
}

// newProxy starts a proxy that wants credentials, user:password, unless they are "".
func newProxy(t *testing.T, receiver, credentials string) *proxy {
	t.Helper()
	p := &proxy{receiver: receiver}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // the URL is the whole one already
		Transport: &http.Transport{DialContext: p.dial},
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		switch {
		case credentials != "" && r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(credentials)):
			http.Error(w, "not with these credentials", http.StatusProxyAuthRequired)
		case r.Method == http.MethodConnect:
			p.tunnels.Add(1)
			p.tunnel(w, r)
		case r.URL.Host != proxied:
			http.Error(w, "no such host", http.StatusBadGateway)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *proxy) address() string { return strings.TrimPrefix(p.URL, "http://") }

func (p *proxy) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	p.dials.Add(1)
	var d net.Dialer
	return d.DialContext(ctx, network, p.receiver)
}

// tunnel passes bytes both ways until one side ends.
func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := p.dial(r.Context(), "tcp", "")
	if err != nil {
		http.Error(w, "no such host", http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(from, to)
		from.Close()
	})
	_, _ = io.Copy(to, buffered)
	to.Close()
	back.Wait()
}
