// This file runs the API server's own audit backends, put together by its own
// options, beside the plugin.

package peers

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
)

// apiServerBackend is the audit backend that an API server with these options
// has for the webhook at url. Its policy does not matter: it decides on the events
// before the backend.
func apiServerBackend(t testing.TB, url string, set func(*options.AuditWebhookOptions)) audit.Backend {
	t.Helper()
	o := options.NewAuditOptions()
	o.PolicyFile = writeFile(t, "policy.yaml", `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}`)
	o.WebhookOptions.ConfigFile = kubeconfig(t, url)
	// Posts one after another, no faster and no slower than they are made.
	o.WebhookOptions.BatchOptions.BatchConfig.AsyncDelegate = false
	o.WebhookOptions.BatchOptions.BatchConfig.ThrottleEnable = false
	set(&o.WebhookOptions)
	if errs := o.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	var config server.Config
	if err := o.ApplyTo(&config); err != nil {
		t.Fatal(err)
	}
	return config.AuditBackend
}

// postedByAPIServer gives the events to an API server's backend one by one, as
// requests make them, and returns what it posted when it has stopped.
func postedByAPIServer(t *testing.T, events []auditinternal.Event) []post {
	t.Helper()
	w := newWebhook(t, http.StatusOK)
	backend := apiServerBackend(t, w.URL, func(o *options.AuditWebhookOptions) {
		o.BatchOptions.BatchConfig.BufferSize = len(events) // what does not fit is dropped
	})
	stop := make(chan struct{})
	if err := backend.Run(stop); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		backend.ProcessEvents(&events[i])
	}
	close(stop)
	backend.Shutdown()
	return w.posts()
}

// items splits bodies into their items. The bodies have to be head, the items
// with commas between, and tail.
func items(t *testing.T, posts []post, tail string) (items []string) {
	t.Helper()
	const head = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	for i, p := range posts {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(p.body, &list); err != nil {
			t.Fatal(err)
		}
		if want := head + string(bytes.Join(raw(list.Items), []byte(","))) + tail; string(p.body) != want {
			t.Fatalf("body %d is not %s...%q:\n%.200s", i, head, tail, p.body)
		}
		for _, item := range list.Items {
			items = append(items, string(item))
		}
	}
	return items
}

func raw(messages []json.RawMessage) (b [][]byte) {
	for _, m := range messages {
		b = append(b, m)
	}
	return b
}

// The plugin posts what the API server's own webhook backend posts, but for
// three things: its items say what they are, as the lines of the log do; no line
// feed follows the list; and the lists are cut elsewhere.
func TestItemsAreThoseOfTheAPIServersOwnBackend(t *testing.T) {
	for name, lines := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			_, events := decodedLines(t, lines)
			theirPosts := postedByAPIServer(t, events)
			ourPosts := deliver(t, [][]byte{rawChunk(t, lines)}, nil)

			_, theirs := decodedPosts(t, theirPosts)
			_, ours := decodedPosts(t, ourPosts)
			wantEqual(t, ours, theirs)

			their, our := items(t, theirPosts, "]}\n"), items(t, ourPosts, "]}")
			if len(their) != len(lines) || len(our) != len(lines) {
				t.Fatalf("%d and %d items, want %d", len(their), len(our), len(lines))
			}
			const typeMeta = `{"kind":"Event","apiVersion":"audit.k8s.io/v1",`
			for i := range our {
				if rest, ok := strings.CutPrefix(our[i], typeMeta); !ok || "{"+rest != their[i] {
					t.Fatalf("item %d is not the API server's with kind and apiVersion before it:\nAPI server: %.300s\nplugin:     %.300s", i, their[i], our[i])
				}
			}
		})
	}
}

// The relay topology: API server, Fluent Bit's http input, plugin.
func TestTheAPIServersPostsPassThroughTheRelay(t *testing.T) {
	for name, lines := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			_, events := decodedLines(t, lines)
			var chunks [][]byte
			for _, p := range postedByAPIServer(t, events) {
				// in_http makes one record of a body, and its numbers integers or doubles.
				var chunk bytes.Buffer
				appendRecord(t, &chunk, tree(t, p.body))
				chunks = append(chunks, chunk.Bytes())
			}
			_, got := decodedPosts(t, deliver(t, chunks, nil))
			wantEqual(t, canonical(t, got), canonical(t, events))
		})
	}
}

// What the README says of --audit-webhook-initial-backoff.
func TestTheAPIServerTriesFiveTimesAndDropsTheEvents(t *testing.T) {
	w := newWebhook(t, http.StatusServiceUnavailable)
	backend := apiServerBackend(t, w.URL, func(o *options.AuditWebhookOptions) {
		o.BatchOptions.Mode = options.ModeBlockingStrict // the mode that says what became of the events
		o.InitialBackoff = time.Millisecond
	})
	if backend.ProcessEvents(&auditinternal.Event{AuditID: "a", Stage: auditinternal.StagePanic}) {
		t.Error("the events were sent, want them dropped")
	}
	if got := len(w.posts()); got != 5 {
		t.Errorf("%d tries, want 5", got)
	}
}

// What the README says of --audit-webhook-truncate-max-batch-size.
func TestTheAPIServersTruncateMaxBatchSizeBoundsNoPost(t *testing.T) {
	const n, size = 10, 500
	w := newWebhook(t, http.StatusOK)
	backend := apiServerBackend(t, w.URL, func(o *options.AuditWebhookOptions) {
		o.BatchOptions.BatchConfig.MaxBatchSize = n // a batch is cut when all are there
		o.TruncateOptions.Enabled = true
		o.TruncateOptions.TruncateConfig.MaxEventSize = 2 * size
		o.TruncateOptions.TruncateConfig.MaxBatchSize = 2 * size
	})
	stop := make(chan struct{})
	if err := backend.Run(stop); err != nil {
		t.Fatal(err)
	}
	for range n {
		backend.ProcessEvents(&auditinternal.Event{AuditID: "a", Stage: auditinternal.StagePanic, RequestURI: strings.Repeat("x", size)})
	}
	select { // a stop would cut the batch
	case <-w.first:
	case <-time.After(time.Minute): // only a hang reaches it
		t.Error("the API server posted nothing while it ran")
	}
	close(stop)
	backend.Shutdown()
	posts := w.posts()
	if len(posts) != 1 {
		t.Fatalf("%d posts, want 1", len(posts))
	}
	if got := len(posts[0].body); got <= n*size {
		t.Errorf("the post has %d bytes, want more than %d", got, n*size)
	}
}
