package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// This file is the receivers that are hardest to judge: those that never answer, fail at
// random, or give up after a time.

// neverAnswered has one event that the receiver does not answer.
func neverAnswered(c *trial) {
	c.timeout = unanswered
	s := c.usual("")
	c.refused = 1
	bad := len(c.lines) / 3
	id := auditIDs.FindStringSubmatch(c.lines[bad])[1]
	r := c.receive("-fail-match", `"auditID":"`+id+`"`, "-fail-status", "hang")
	s.url = r.url
	// Its fellows wait for a few requests that take unanswered each; the rest does not.
	c.patience += 15 * unanswered
	p := c.start(s)
	c.write()
	c.finish(p, r, time.Now())
	if !strings.Contains(r.String(), `lost: "`+id+`"`) {
		c.Error("it is another event that was not delivered")
	}
}

// mixedReceiver answers every third request 503 with Retry-After, cuts every fifth connection,
// answers every seventh 500, and 400 to what is above 120 kB.
func mixedReceiver(c *trial) {
	lines := auditLog(c.T, "metadata")[:400]
	most := 200
	if bench {
		lines, most = copies(auditLog(c.T, "metadata")[:1000], 8), 600
	}
	s := c.prepare(lines, 1, time.Second, "")
	c.patience = 5 * time.Minute
	r := c.receive()
	var n atomic.Int64
	s.url = between(c.T, r.url, func(w http.ResponseWriter, body []byte, forward func()) {
		switch n := n.Add(1); {
		case n%3 == 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
		case n%5 == 0:
			panic(http.ErrAbortHandler)
		case n%7 == 0:
			w.WriteHeader(500)
		case len(body) > 120_000:
			w.WriteHeader(400)
		default:
			forward()
		}
	})
	p := c.start(s)
	c.write()
	c.finish(p, r, time.Now())
	if n := n.Load(); n > int64(most) {
		c.Errorf("%d requests, want at most %d", n, most)
	}
	if n := strings.Count(p.String(), "[error]"); n > 60 {
		c.Errorf("%d lines of errors, want at most 60", n)
	}
}

// slowGateway is a receiver that takes 5 ms an event, behind a gateway that gives up after a
// second: two hundred events are the most that a body may have.
func slowGateway(c *trial) {
	lines, lots, every := copies(auditLog(c.T, "metadata")[:400], 2), 2, 3*time.Second
	if bench {
		lines, lots = copies(auditLog(c.T, "metadata")[:1000], 24), 20
	}
	s := c.prepare(lines, lots, time.Duration(lots)*every, "")
	c.patience = 3 * time.Minute
	r := c.receive()
	s.url = between(c.T, r.url, func(w http.ResponseWriter, body []byte, forward func()) {
		takes := time.Duration(len(auditIDs.FindAll(body, -1))) * 5 * time.Millisecond
		time.Sleep(min(takes, time.Second))
		if takes > time.Second {
			w.WriteHeader(504)
			return
		}
		forward()
	})
	p := c.start(s)
	c.write()
	c.finish(p, r, time.Now())
}

// between is a server in front of the receiver: answer is given each body, and forward, which
// passes it on and gives the receiver's answer.
func between(t *testing.T, receiver string, answer func(w http.ResponseWriter, body []byte, forward func())) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender has gone
		}
		answer(w, body, func() {
			resp, err := http.Post(receiver, r.Header.Get("Content-Type"), bytes.NewReader(body))
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			_, _ = fmt.Fprint(w, resp.Status)
		})
	}))
	t.Cleanup(server.Close)
	return server.URL
}
