// This file runs the whole plugin, but for cgo, against a webhook.

package peers

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"out_k8saudit/plugin"
)

// post is one request that the webhook got.
type post struct {
	method string
	header http.Header
	body   []byte // without the compression
}

// webhook keeps what is posted to it and answers with a status.
type webhook struct {
	*httptest.Server
	first chan struct{} // closed at the first post

	mu  sync.Mutex
	got []post
}

func newWebhook(t *testing.T, status int) *webhook {
	t.Helper()
	w := &webhook{first: make(chan struct{})}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		if len(w.got) == 0 {
			close(w.first)
		}
		w.got = append(w.got, post{r.Method, r.Header.Clone(), b})
		w.mu.Unlock()
		rw.WriteHeader(status)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *webhook) posts() []post {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got
}

// kubeconfig is the file that tells an API server, and the plugin, of the webhook
// at url.
func kubeconfig(t testing.TB, url string) string {
	t.Helper()
	return writeFile(t, "kubeconfig", `apiVersion: v1
kind: Config
clusters:
- name: audit
  cluster: {server: "`+url+`/audit"}
contexts:
- name: audit
  context: {cluster: audit, user: ""}
current-context: audit
`)
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// deliver flushes the chunks through one instance of the plugin and returns what
// it posted. Bodies go out one after another, so they are in order.
func deliver(t *testing.T, chunks [][]byte, keys map[string]string) []post {
	t.Helper()
	w := newWebhook(t, http.StatusOK)
	config := kubeconfig(t, w.URL)
	get := func(key string) string {
		switch strings.ToLower(key) {
		case "webhook_config_file":
			return config
		case "max_concurrent_requests":
			return "1"
		case "flush_timeout":
			return "5m" // only a hang reaches it
		}
		return keys[key]
	}
	p := &plugin.Process{Version: "test", Log: t.Output()}
	in, err := p.Init(get)
	if err != nil {
		t.Fatal(err)
	}
	for i, chunk := range chunks {
		if answer := in.Flush(chunk, "kube.audit"); answer != plugin.OK {
			t.Errorf("chunk %d was answered %v, want OK", i, answer)
		}
	}
	in.Exit()
	return w.posts()
}
