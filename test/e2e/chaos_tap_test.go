package e2e

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// This file is a tap: a proxy before a receiver that notes each request and may
// answer in the receiver's place.

// tapped is one request as it came by.
type tapped struct {
	sum      [sha256.Size]byte // of the body
	ids      []string          // the auditIDs in it, in order
	status   int               // the answer
	answered time.Time
}

// decide says what becomes of the nth request, from 0: whether the receiver gets
// it, and the status to answer, 0 for the receiver's own. before are the requests
// that came earlier.
type decide func(n int, r tapped, before []tapped) (forward bool, status int)

// through passes every request on.
func through(int, tapped, []tapped) (bool, int) { return true, 0 }

type tap struct {
	*httptest.Server

	mu       sync.Mutex
	requests []tapped
}

var auditIDs = regexp.MustCompile(`"auditID":"([^"]*)"`)

func newTap(t *testing.T, receiver string, how decide) *tap {
	t.Helper()
	to, err := url.Parse(receiver)
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender has gone
		}
		seen := tapped{sum: sha256.Sum256(body)}
		for _, m := range auditIDs.FindAllSubmatch(body, -1) {
			seen.ids = append(seen.ids, string(m[1]))
		}
		p.mu.Lock()
		n := len(p.requests)
		forward, status := how(n, seen, p.requests)
		p.requests = append(p.requests, seen)
		p.mu.Unlock()
		if forward {
			req, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header = r.Header.Clone()
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if status == 0 {
				status = resp.StatusCode
			}
		}
		p.mu.Lock()
		p.requests[n].status, p.requests[n].answered = status, time.Now()
		p.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(p.Close)
	return p
}

// all are the requests up to now.
func (p *tap) all() []tapped {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}
