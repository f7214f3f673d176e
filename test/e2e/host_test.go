package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// This file is what only the bundled host can show: memory with retries that
// never come, and races.

var (
	rssAnon  = regexp.MustCompile(`anon_kb (\d+)`)
	answered = regexp.MustCompile(`stopped.* retries=(\d+) `)
)

func TestChunksWhoseRetryNeverComesCostBoundedMemory(t *testing.T) {
	const each, remembered = 5, 20 // events of a chunk, bytes of an event that was accepted
	chunks := 50_000
	if long {
		chunks = 100_000
	}
	dir := t.TempDir()
	log, first := filepath.Join(dir, "audit.log"), filepath.Join(dir, "first.log")
	lines := auditLog(t, "metadata")
	writeLines(t, first, lines[:1])
	// All events differ, or they would be sent once and cost nothing.
	writeLines(t, log, numbered(slices.Repeat(lines[1:6], chunks)))

	// The first request hangs, so the webhook counts as slow and every flush is
	// answered RETRY at once; all other requests are accepted. So each chunk's events are
	// done, and the chunk never comes back.
	var requests atomic.Int64
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			<-hang
		}
	}))
	defer server.Close()
	defer close(hang)

	p := start(t, flbhost, "--plugin", plugin, "--set", "URL="+server.URL, "--set", "Flush_Timeout=100ms", "--set", "Request_Timeout=1h", "--set", "Drain_Timeout=1s",
		"--workers", "1", "--drop-retries", "--rss", "--rss-every", strconv.Itoa(chunks/5), "--chunk-records", strconv.Itoa(each), "--log", first, "--log", log)
	if status := p.wait(); status != 0 {
		t.Errorf("the host ended with %d", status)
	}
	var anon []int
	for _, m := range rssAnon.FindAllStringSubmatch(p.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		anon = append(anon, n)
	}
	t.Logf("RssAnon in kB at the start, every %d chunks and at the end: %v", chunks/5, anon)
	m := answered.FindStringSubmatch(p.String())
	if m == nil || len(anon) < 6 {
		t.Fatal("the host or the plugin does not say what the chunks cost")
	}
	if retries, _ := strconv.Atoi(m[1]); retries < chunks*99/100 {
		t.Errorf("%d of %d chunks were answered RETRY, want nearly all", retries, chunks)
	}
	if last, bound := anon[len(anon)-2], 64_000+remembered*each*chunks/1000; last > bound {
		t.Errorf("RssAnon is %d kB after %d chunks, want at most %d", last, chunks, bound)
	}
}

func TestNoRaces(t *testing.T) {
	t.Setenv("GOMAXPROCS", "4") // as many interleavings as there can be
	dir := t.TempDir()
	archive, host := filepath.Join(dir, "libout_k8saudit.a"), filepath.Join(dir, "flbhost")
	sources, _ := filepath.Glob("../../tools/flbhost/*.c")
	for _, c := range [][]string{
		{"go", "build", "-race", "-buildmode=c-archive", "-o", archive, "../.."},
		append(append([]string{"gcc", "-std=gnu11", "-O1", "-no-pie", "-DFLBHOST_STATIC", "-o", host}, sources...), archive, "-lpthread", "-lresolv", "-ldl"),
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(c, " "), err, out)
		}
	}
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "audit.log")
			lines := auditLog(t, "metadata")
			writeLines(t, log, lines)
			r := receive(t, dir, log, "", "-fail-every", "5", "-delay", "5ms")
			p := start(t, host, "--plugin", "linked in", "--ignore-synchronous", "--workers", "4", "--chunk-records", "20", "--reload-after", "40",
				"--retry-base", "0.05", "--retry-cap", "0.1", "--set", "URL="+r.url, "--set", "Mode="+mode,
				"--set", "Initial_Backoff=10ms", "--set", "Max_Backoff=50ms", "--set", "Flush_Timeout=100ms", "--set", "Batch_Max_Size=15", "--log", log)
			status := p.wait()
			if status != 0 || strings.Contains(p.String(), "DATA RACE") {
				t.Errorf("the host ended with %d, a data race: %v", status, strings.Contains(p.String(), "DATA RACE"))
			}
			v := r.verdict()
			t.Logf("lost %d, duplicated %d, altered %d", v.lost, v.duplicated, v.altered)
			if v.in != len(lines) || v.lost != 0 || v.altered != 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}
