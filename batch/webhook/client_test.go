// Tests of what Send makes of answers, and of what goes out.

package webhook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(proxyHelper) != "" {
		os.Exit(proxyHelperMain())
	}
	goleak.VerifyTestMain(m)
}

// config is a valid Config for url.
func config(url string) Config {
	return Config{
		URL:                   url,
		RequestTimeout:        30 * time.Second,
		MaxConcurrentRequests: 4,
		MaxBodyBytes:          64 << 10,
		UserAgent:             "out_k8saudit/test",
	}
}

// client is New that must succeed, closed at the end of the test.
func client(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := unstarted(t, h)
	s.Start()
	return s
}

// unstarted is a server that the test starts, quiet about refused handshakes.
func unstarted(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

// file writes content to a new file.
func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func overwrite(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const list = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{"auditID":"a"}]}`

func TestAnswers(t *testing.T) {
	date := "Mon, 02 Jan 2023 10:00:00 GMT"
	for _, tt := range []struct {
		name    string
		status  int
		header  map[string]string
		body    string
		want    string // error without "POST URL: ", empty for none
		wait    time.Duration
		hasWait bool
	}{
		{name: "200", status: 200, body: "ok"},
		{name: "201", status: 201},
		{name: "202", status: 202, body: `{"queued":true}`},
		{name: "204", status: 204},
		{name: "206", status: 206},
		{name: "299", status: 299},
		{name: "301", status: 301, header: map[string]string{"Location": "/elsewhere"},
			want: "answered 301 Moved Permanently (redirects are not followed: set URL to where it leads)"},
		{name: "307", status: 307, header: map[string]string{"Location": "http://127.0.0.1:1/?token=secret"},
			want: "answered 307 Temporary Redirect (redirects are not followed: set URL to where it leads)"},
		{name: "400", status: 400, body: "http: request body too large\n",
			want: `answered 400 Bad Request: "http: request body too large"`},
		{name: "401", status: 401, body: "Unauthorized", want: `answered 401 Unauthorized (neither Bearer_Token_File nor HTTP_User is set): "Unauthorized"`},
		{name: "404", status: 404, body: "404 page not found\n", want: `answered 404 Not Found: "404 page not found"`},
		{name: "408", status: 408, want: "answered 408 Request Timeout"},
		{name: "413", status: 413, want: "answered 413 Request Entity Too Large"},
		{name: "429 seconds", status: 429, header: map[string]string{"Retry-After": "3600"},
			want: "answered 429 Too Many Requests", wait: time.Hour, hasWait: true},
		{name: "429 zero", status: 429, header: map[string]string{"Retry-After": "0"},
			want: "answered 429 Too Many Requests", wait: 0, hasWait: true},
		{name: "429 date", status: 429, header: map[string]string{"Date": date, "Retry-After": "Mon, 02 Jan 2023 10:01:30 GMT"},
			want: "answered 429 Too Many Requests", wait: 90 * time.Second, hasWait: true},
		{name: "429 nonsense", status: 429, header: map[string]string{"Retry-After": "soon"}, want: "answered 429 Too Many Requests"},
		{name: "429 negative", status: 429, header: map[string]string{"Retry-After": "-5"}, want: "answered 429 Too Many Requests"},
		{name: "500", status: 500, body: "line one\n\x1b[31mred\x00\xff", want: `answered 500 Internal Server Error: "line one [31mred?"`},
		{name: "503", status: 503, header: map[string]string{"Retry-After": "7"}, body: "busy",
			want: `answered 503 Service Unavailable: "busy"`, wait: 7 * time.Second, hasWait: true},
		{name: "599", status: 599, want: "answered 599"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requests := 0
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				_, _ = io.Copy(io.Discard, r.Body)
				for k, v := range tt.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			err := client(t, config(s.URL+"/audit?token=secret")).Send(t.Context(), []byte(list))
			if requests != 1 {
				t.Errorf("%d requests, want 1", requests)
			}
			if tt.want == "" {
				if err != nil {
					t.Fatalf("Send: %v, want nil", err)
				}
				return
			}
			answer, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("Send: %v (%T), want an *Error", err, err)
			}
			if want := "POST " + s.URL + "/audit: " + tt.want; err.Error() != want {
				t.Errorf("text\n got %s\nwant %s", err, want)
			}
			if answer.StatusCode() != tt.status {
				t.Errorf("StatusCode %d, want %d", answer.StatusCode(), tt.status)
			}
			if wait, ok := answer.RetryAfter(); wait != tt.wait || ok != tt.hasWait {
				t.Errorf("RetryAfter %v %v, want %v %v", wait, ok, tt.wait, tt.hasWait)
			}
		})
	}
}

func TestRequestAsSent(t *testing.T) {
	var got *http.Request
	var body []byte
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	if err := client(t, config(s.URL)).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.Proto != "HTTP/1.1" || got.ContentLength != int64(len(list)) || string(body) != list {
		t.Errorf("got %s %s, %d bytes %q", got.Method, got.Proto, got.ContentLength, body)
	}
	want := http.Header{
		"Content-Type":   {"application/json"},
		"Content-Length": {"91"},
		"User-Agent":     {"out_k8saudit/test"},
	}
	for k, v := range want {
		if !slices.Equal(got.Header[k], v) {
			t.Errorf("%s: %q, want %q", k, got.Header[k], v)
		}
	}
	if len(got.Header) != len(want) {
		t.Errorf("header %v, want only %v", got.Header, want)
	}
}

func TestEmptyBodyIsNotSent(t *testing.T) {
	c := client(t, config("http://127.0.0.1:1"))
	if err := c.Send(t.Context(), nil); err == nil || err.Error() != "nothing to send: the body is empty" {
		t.Errorf("Send: %v", err)
	}
}

// rawServer answers every request with answer (200 without a body if empty) and
// gives the first line of each.
func rawServer(t *testing.T, answer string) (address string, lines <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if answer == "" {
		answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	}
	ch := make(chan string, 100)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader("POST / HTTP/1.1\r\n"), r)))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					ch <- strings.TrimSuffix(line, "\r\n")
					if _, err := io.WriteString(conn, answer); err != nil || !strings.Contains(answer, "Content-Length: 0") {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l.Addr().String(), ch
}

func TestPathAndQueryGoOutAsConfigured(t *testing.T) {
	address, lines := rawServer(t, "")
	for _, tt := range []struct{ configured, target string }{
		{"", "/"},
		{"/", "/"},
		{"?", "/?"},
		{"?x=1", "/?x=1"},
		{"/audit", "/audit"},
		{"/audit?", "/audit?"},
		{"//audit", "//audit"},
		{"/a%2Fb//c?x=1&y=%20;z", "/a%2Fb//c?x=1&y=%20;z"},
		{"/a%2fb/%7Euser/../x/./y", "/a%2fb/%7Euser/../x/./y"},
		{"/~u/!$&'()*+,;=:@-._", "/~u/!$&'()*+,;=:@-._"},
		{"/a?q=a|b\"{}^`<>[]&&==??/", "/a?q=a|b\"{}^`<>[]&&==??/"},
		{"/a?b=%zz&c=%", "/a?b=%zz&c=%"},
		{"/%E2%82%AC", "/%E2%82%AC"},
	} {
		c := client(t, config("http://"+address+tt.configured))
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Errorf("%q: %v", tt.configured, err)
			continue
		}
		if got, want := <-lines, "POST "+tt.target+" HTTP/1.1"; got != want {
			t.Errorf("%q: got %q, want %q", tt.configured, got, want)
		}
	}
}

func TestTokenIsReadAgainAfter401(t *testing.T) {
	token := file(t, "old\n")
	var got []string
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer new" {
			http.Error(w, "bad token: "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), http.StatusUnauthorized)
		}
	})
	cfg := config(s.URL)
	cfg.BearerTokenFile = token
	c := client(t, cfg)

	want := "POST " + s.URL + `: answered 401 Unauthorized (the token is read again from Bearer_Token_File): "bad token: [secret]"`
	if err := c.Send(t.Context(), []byte(list)); err == nil || err.Error() != want {
		t.Errorf("first Send\n got %v\nwant %s", err, want)
	}
	if err := os.WriteFile(token, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Errorf("Send with the new token: %v", err)
	}
	if want := []string{"Bearer old", "Bearer new"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLastTokenStaysWhileItsFileIsGone(t *testing.T) {
	token := file(t, "old")
	status := 401
	var got []string
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		w.WriteHeader(status)
	})
	cfg := config(s.URL)
	cfg.BearerTokenFile = token
	c := client(t, cfg)
	_ = c.Send(t.Context(), []byte(list)) // 401: the file will be read again
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	want := "POST " + s.URL + ": answered 401 Unauthorized (Bearer_Token_File: open " + token +
		": no such file or directory: give a readable file that holds the token)"
	if err := c.Send(t.Context(), []byte(list)); err == nil || err.Error() != want {
		t.Errorf("Send\n got %v\nwant %s", err, want)
	}
	status = 200
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Errorf("Send: %v", err)
	}
	if want := []string{"Bearer old", "Bearer old", "Bearer old"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnswerThatRepeatsTheBodyIsWithheld(t *testing.T) {
	event := `{"auditID":"a","requestObject":{"data":{"password":"hunter2"}}}`
	for _, say := range []string{"cannot parse: " + event, `cannot parse: ` + strings.ReplaceAll(event, `"`, `\"`)} {
		s := server(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, say, 400) })
		want := "POST " + s.URL + `: answered 400 Bad Request: "[withheld: repeats what was sent]"`
		err := client(t, config(s.URL)).Send(t.Context(), []byte(`{"items":[`+event+`]}`))
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestConcurrentSendsShareNothing(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[string(b)]++
		mu.Unlock()
	})
	cfg := config(s.URL)
	cfg.BearerTokenFile = file(t, "t")
	c := client(t, cfg)
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			buffer := make([]byte, 100_000)
			for j := range 20 {
				// The buffer is reused at once: the race detector sees a late reader.
				for k := range buffer {
					buffer[k] = byte('a' + (i+j)%26)
				}
				if err := c.Send(context.Background(), buffer); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	total := 0
	for b, n := range got {
		total += n
		if len(b) != 100_000 || strings.Trim(b, b[:1]) != "" {
			t.Errorf("a body of %d bytes is mixed", len(b))
		}
	}
	if total != 160 {
		t.Errorf("%d bodies, want 160", total)
	}
}

func BenchmarkSend1MB(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer s.Close()
	cfg := config(s.URL)
	cfg.MaxBodyBytes = 1 << 20
	c, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := bytes.Repeat([]byte("x"), 1<<20)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Send(context.Background(), body); err != nil {
			b.Fatal(err)
		}
	}
}
