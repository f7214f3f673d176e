package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"sync/atomic"
	"testing"
)

// An answer that is on its way while idle connections are closed must not be lost: what
// was accepted would be sent again.
func TestClosingIdleConnectionsLosesNoAnswer(t *testing.T) {
	var accepted atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		accepted.Add(1)
	}))
	defer server.Close()
	c, err := New(config(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// net/http says that a connection is idle, then hands out the answer.
	closing := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(error) {
		c.tr.closeIdle()
		runtime.Gosched()
	}})
	const sends = 200
	for range sends {
		if err := c.Send(closing, []byte(list)); err != nil {
			t.Fatal(err)
		}
	}
	if n := accepted.Load(); n != sends {
		t.Errorf("%d requests came, want %d", n, sends)
	}
}
