package e2e

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// This file has receivers that answer slowly, without an end, or not at all.

// front is a server before a receiver: what it does not do itself it passes on.
type front struct {
	*httptest.Server
	behind   http.Handler
	most     int64 // bytes of a body that a receiver of limited size takes
	requests atomic.Int64
}

func newFront(t *testing.T, r *receiver, serve func(f *front, n int64, w http.ResponseWriter, req *http.Request)) *front {
	t.Helper()
	to, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{behind: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		serve(f, f.requests.Add(1), w, req)
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the plugin's to tell
	t.Cleanup(f.Close)
	return f
}

// accept has the receiver store the request, and keeps its answer to itself. It reports
// whether that was 200.
func (f *front) accept(req *http.Request) bool {
	answer := httptest.NewRecorder()
	f.behind.ServeHTTP(answer, req)
	return answer.Code == http.StatusOK
}

// endless answers status and a body without an end.
func endless(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	for b := bytes.Repeat([]byte("x"), 64<<10); ; {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

// hijack takes the connection over, after the body was read or before.
func hijack(w http.ResponseWriter, req *http.Request, read bool, use func(conn net.Conn)) {
	if read {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	use(conn)
}

func resets(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
}

// drips writes a byte a second, until the other side has had enough.
func drips(text string) func(conn net.Conn) {
	return func(conn net.Conn) {
		for i := range len(text) {
			if _, err := conn.Write([]byte(text[i : i+1])); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
}

func floods(text string) func(conn net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// hostilities are what a front does, and what the log says of it; "" if it is no fault.
// What is hostile without storing is so to the first requests only.
var hostilities = map[string]struct {
	serve func(f *front, n int64, w http.ResponseWriter, req *http.Request)
	says  string
}{
	"accepts without an end": {func(f *front, _ int64, w http.ResponseWriter, req *http.Request) {
		if f.accept(req) {
			endless(w, http.StatusOK)
		}
	}, ""},
	"accepts in a slow drip": {func(f *front, _ int64, w http.ResponseWriter, req *http.Request) {
		if f.accept(req) {
			hijack(w, req, false, func(conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
				drips(strings.Repeat("x", 1000))(conn)
			})
		}
	}, ""},
	"refuses without an end": {atFirst(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		endless(w, http.StatusServiceUnavailable)
	}), "answered 503"},
	"answers in a slow drip": {atFirst(func(w http.ResponseWriter, req *http.Request) {
		hijack(w, req, true, drips("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	}), "not answered within 1s (Request_Timeout)"},
	"floods with informational answers": {atFirst(func(w http.ResponseWriter, req *http.Request) {
		hijack(w, req, true, floods("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"))
	}), "server response headers exceeded 65536 bytes"},
	"switches protocols": {atFirst(func(w http.ResponseWriter, req *http.Request) {
		hijack(w, req, true, func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		})
	}), "answered 101"},
	"resets before the body": {atFirst(func(w http.ResponseWriter, req *http.Request) {
		hijack(w, req, false, resets)
	}), "a request failed"},
	"resets after the body": {atFirst(func(w http.ResponseWriter, req *http.Request) {
		hijack(w, req, true, resets)
	}), "connection reset by peer"},
	"refuses what is large unread": {func(f *front, _ int64, w http.ResponseWriter, req *http.Request) {
		if req.ContentLength > f.most {
			hijack(w, req, false, func(conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 413 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			})
			return
		}
		f.behind.ServeHTTP(w, req)
	}, "answered 413"},
}

// atFirst is hostile to three requests and passes the rest on.
func atFirst(hostile func(w http.ResponseWriter, req *http.Request)) func(*front, int64, http.ResponseWriter, *http.Request) {
	return func(f *front, n int64, w http.ResponseWriter, req *http.Request) {
		if n <= 3 {
			hostile(w, req)
			return
		}
		f.behind.ServeHTTP(w, req)
	}
}

func TestAHostileReceiverCostsNoEventAndNoDuplicate(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hostilities)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				h := hostilities[name]
				d := &delivery{T: t, e: e, dir: t.TempDir()}
				d.log = filepath.Join(d.dir, "audit.log")
				d.lines = auditLog(t, "requestresponse")
				writeLines(t, d.log, d.lines)
				r := d.receive()
				f := newFront(t, r, h.serve)
				for _, line := range d.lines {
					f.most = max(f.most, int64(len(line))+1000) // no event is refused alone
				}
				f.Start()
				p := d.deliver(r, setup{url: f.URL + "/audit", keys: "Request_Timeout 1s|Initial_Backoff 100ms|Max_Backoff 500ms"})
				switch said := strings.Contains(p.String(), "a request failed"); {
				case h.says == "" && said:
					t.Error("a request that was accepted counts as failed")
				case !strings.Contains(p.String(), h.says):
					t.Errorf("the log does not say %q", h.says)
				}
			})
		})
	}
}
