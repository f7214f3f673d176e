// Tests of compressed bodies.

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func compressed(t *testing.T, body string) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

// postGzip posts a body as compressed.
func postGzip(t *testing.T, s *sink, body []byte) int {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, s.url, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "GZIP") // in any case of letters: RFC 9110, section 8.4.1
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestGzipBodiesAreStoredAsTheyWereBefore(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	a, b := line("a", "Panic"), line("b", "Panic")
	s := start(t, "-store", store)
	z := compressed(t, list(a))
	if status := postGzip(t, s, z); status != 200 {
		t.Errorf("status %d", status)
	}
	mustPost(t, s, 200, list(b))
	out, _ := s.end()
	want(t, "stdout", out, fmt.Sprintf(`requests: 2
answers: 200=2
batches: 2
events: 2
duplicates: 0
bad: 0
gzip: 1
http2: 0
connections: 2
bytes: %d
largest body: %d
`, len(z)+len(list(b)), max(len(z), len(list(b)))))
	stored, _ := os.ReadFile(store)
	want(t, "store", string(stored), a+"\n"+b+"\n")
}

func TestABrokenGzipBodyIsRefused(t *testing.T) {
	whole := compressed(t, list(line("a", "Panic")))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-5] ^= 1 // in the checksum
	store := filepath.Join(t.TempDir(), "store")
	s := start(t, "-store", store)
	bodies := map[string][]byte{
		"plain": []byte(list(line("a", "Panic"))), "empty": {}, "cut": whole[:len(whole)-9],
		"wrong checksum": flipped, "something after it": append(bytes.Clone(whole), "x"...),
	}
	for name, body := range bodies {
		if status := postGzip(t, s, body); status != 400 {
			t.Errorf("%s: status %d, want 400", name, status)
		}
	}
	out, _ := s.end()
	if !strings.Contains(out, "answers: 400=5\nbatches: 0\nevents: 0\nduplicates: 0\nbad: 5\ngzip: 5\n") {
		t.Errorf("stdout:\n%s", out)
	}
	if b, _ := os.ReadFile(store); len(b) > 0 {
		t.Errorf("stored: %q", b)
	}
}

func TestMaxBodyHoldsAfterDecompression(t *testing.T) {
	fits := list(line("a", "Panic"))
	s := start(t, "-max-body", fmt.Sprint(len(fits)))
	if status := postGzip(t, s, compressed(t, fits)); status != 200 {
		t.Errorf("status %d for a body of the largest size", status)
	}
	if status := postGzip(t, s, compressed(t, fits+" ")); status != 413 {
		t.Errorf("status %d for a byte more", status)
	}
	bomb := compressed(t, strings.Repeat(" ", 8<<20))
	if status := postGzip(t, s, bomb); status != 413 {
		t.Errorf("status %d for a bomb of %d bytes", status, len(bomb))
	}
	if out, _ := s.end(); !strings.Contains(out, "answers: 200=1 413=2\nbatches: 1\n") {
		t.Errorf("stdout:\n%s", out)
	}
}
