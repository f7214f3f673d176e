// Tests of the bare POST that each flush is held against.
package flbhost

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestABarePostFollowsEachFlush(t *testing.T) {
	var mu sync.Mutex
	var got, clients []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body))
		clients = append(clients, r.RemoteAddr)
	}))
	defer server.Close()
	body := strings.Repeat("event ", 100_000) // more than a socket takes at once
	latency := filepath.Join(t.TempDir(), "latency")
	h := start(t, hostPath, synchronous, "--workers", "1", "--chunk-records", "1", "--latency", latency,
		"--post-to", server.Listener.Addr().String(), "--post-body", writeFile(t, "body", body), "--log", logFile(t, 0, 3))
	h.mustEnd()
	h.wantCounts("chunks 3 ok 3 retries 0 errors 0 left 0 flushes 3")
	b, err := os.ReadFile(latency)
	if err != nil || !regexp.MustCompile(`^(\d+ \d+\n){3}$`).Match(b) {
		t.Errorf("latency file %q, %v; want three lines of two numbers", b, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "POST /audit " + body; !slices.Equal(got, []string{want, want, want}) {
		t.Errorf("the receiver got %d requests, want three of the whole body", len(got))
	}
	if len(slices.Compact(clients)) != 1 {
		t.Errorf("connections %q, want one", clients)
	}
}

func TestABarePostThatIsNotAcceptedEndsTheHost(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	h := start(t, hostPath, synchronous, "--post-to", server.Listener.Addr().String(),
		"--post-body", writeFile(t, "body", "{}"), "--log", logFile(t, 0, 1))
	if status := h.end(); status != 1 || !strings.Contains(h.stderr.String(), "want 200") {
		t.Errorf("exit status %d, want 1:\n%s", status, h.stderr.String())
	}
}
