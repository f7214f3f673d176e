// Tests of compressed bodies.

package webhook

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"compress/gzip"
)

// bodies is a server that keeps what it is sent, decompressed by the standard library.
func bodies(t *testing.T) (url string, got *[]string, headers *[]http.Header) {
	var mu sync.Mutex
	got, headers = new([]string), new([]http.Header)
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if n := r.Header.Get("Content-Length"); n != strconv.Itoa(len(raw)) {
			t.Errorf("Content-Length %s of %d bytes", n, len(raw))
		}
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(raw))
			if err != nil {
				t.Error(err)
				return
			}
			if raw, err = io.ReadAll(z); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		*got, *headers = append(*got, string(raw)), append(*headers, r.Header)
	})
	return s.URL, got, headers
}

func TestGzip(t *testing.T) {
	url, got, headers := bodies(t)
	cfg := config(url)
	cfg.Gzip = true
	c := client(t, cfg)
	// Large, small, and all at once, so that the pooled writers change hands.
	sent := []string{strings.Repeat(list, 50000), list, strings.Repeat(list, 3), "{}"}
	var senders sync.WaitGroup
	for range 5 {
		for _, body := range sent {
			senders.Go(func() {
				if err := c.Send(t.Context(), []byte(body)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	senders.Wait()
	count := map[string]int{}
	for _, body := range *got {
		count[body]++
	}
	for i, body := range sent {
		if count[body] != 5 {
			t.Errorf("body %d arrived %d times, want 5", i, count[body])
		}
	}
	for _, h := range *headers {
		if h.Get("Content-Encoding") != "gzip" || h.Get("Content-Type") != "application/json" {
			t.Fatalf("headers %v", h)
		}
	}
}

func TestNoCompressionByDefault(t *testing.T) {
	url, got, headers := bodies(t)
	if err := client(t, config(url)).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if (*got)[0] != list || (*headers)[0].Get("Content-Encoding") != "" {
		t.Errorf("got %q with %v", (*got)[0], (*headers)[0])
	}
}

func TestUnsupportedMediaTypeNamesCompress(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return
		}
		_, _ = io.Copy(w, z) // repeats the event, decompressed
	})
	for gzipped, hint := range map[bool]string{true: " (Compress is gzip, which the receiver may not take: try Compress none): \"[withheld: repeats what was sent]\"", false: ""} {
		cfg := config(s.URL)
		cfg.Gzip = gzipped
		err := client(t, cfg).Send(t.Context(), []byte(list))
		if want := "POST " + s.URL + ": answered 415 Unsupported Media Type" + hint; err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
}
