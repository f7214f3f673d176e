package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file has one event refused for ever.

// watch is a proxy before a receiver that notes when an event came alone.
type watch struct {
	*httptest.Server
	id string // part of the event

	mu    sync.Mutex
	alone []time.Time
}

func watchFor(t *testing.T, id, receiver string) *watch {
	t.Helper()
	to, err := url.Parse(receiver)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	w := &watch{id: id}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		now := time.Now()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender has gone
		}
		if bytes.Contains(body, []byte(id)) && bytes.Count(body, []byte(`"auditID":`)) == 1 {
			w.mu.Lock()
			w.alone = append(w.alone, now)
			w.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// waits are the ones between the times that the event came alone.
func (w *watch) waits() (all []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.alone); i++ {
		all = append(all, w.alone[i].Sub(w.alone[i-1]))
	}
	return all
}

func TestOneEventThatIsAlwaysRefusedHoldsUpNoOther(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) { refused(t, e, mode) })
		})
	}
}

func refused(t *testing.T, e engine, mode string) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := auditLog(t, "metadata")
	// Made unique, for an auditID stands in several lines.
	const id = "00000000-bad0-4000-8000-000000000000"
	bad := len(lines) / 2
	at := strings.Index(lines[bad], `"auditID":"`) + len(`"auditID":"`)
	lines[bad] = lines[bad][:at] + id + lines[bad][at+len(id):]
	writeLines(t, log, lines)
	r := receive(t, dir, log, "", "-fail-match", id, "-fail-status", "400")
	w := watchFor(t, id, r.url)
	p := e.start(t, setup{dir: dir, log: log, url: w.URL + "/audit", workers: 1, chunkLines: 300, keys: "Initial_Backoff 100ms|Max_Backoff 500ms|Drain_Timeout 1s|Mode " + mode})
	until(t, "all others are stored", func() bool { return r.stored() >= len(lines)-1 })
	// Waits of 100, 200 and 400 ms, less a fifth by chance, lead to Max_Backoff.
	const rising, steady = 3, 4
	until(t, "the one was tried alone, again and again", func() bool { return len(w.waits()) >= rising+steady })
	waits := w.waits()
	t.Logf("the one came alone after %v", waits)
	for _, wait := range waits[rising:] {
		if wait < 400*time.Millisecond || wait > 5*time.Second {
			t.Errorf("it was tried again after %v, want Max_Backoff: 500ms, less a fifth at most", wait)
		}
	}
	if n := strings.Count(p.String(), "event="+id+"/"); n != 1 {
		t.Errorf("the event was named %d times within a minute, want once", n)
	}
	took := p.stop()
	v := r.verdict()
	if v.lost != 1 || v.duplicated != 0 || v.altered != 0 || v.out != len(lines)-1 {
		t.Errorf("%+v, want all but the one", v)
	}
	if took > 12*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
