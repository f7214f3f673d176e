// This file measures the whole plugin against the API server's own audit backend,
// both sending to the same webhook.

package peers

import (
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/server/options"

	"out_k8saudit/plugin"
)

// BenchmarkAgainstTheAPIServersBackend sends the same events through the plugin,
// from Fluent Bit's chunks, with default keys; and through the backend of an API
// server with default flags, from memory, where they are decoded. But for two
// flags: it does not throttle, and its buffer takes all, or it would drop some.
// Each is a process of its own.
func BenchmarkAgainstTheAPIServersBackend(b *testing.B) {
	const n, reps = 160_000, 3
	for _, f := range forms {
		b.Run(f.name, func(b *testing.B) {
			_, size := chunksOf(b, lines(b, logs["metadata"]), n, f)
			r := startReceiver(b)
			// remote is a side whose events are what the receiver got while it sent.
			remote := func(name string, times int) side {
				s := startSender(b, name, f.name, n, r.url)
				send := func() int {
					before := r.events(b)
					s.do(b, sendAll)
					return r.events(b) - before
				}
				return side{name: name, run: send, times: times, process: s}
			}
			compare(b, n, size, reps, remote("plugin", 4), remote("apiserver", 1))
		})
	}
}

// eventsOf is the events of chunksOf, decoded.
func eventsOf(t testing.TB, lines []string, n int) []auditinternal.Event {
	t.Helper()
	_, decoded := decodedLines(t, lines)
	events := make([]auditinternal.Event, n)
	for i := range events {
		events[i] = decoded[i%len(decoded)]
		id := []byte(events[i].AuditID)
		events[i].AuditID = types.UID(numbered(id, string(id), i))
	}
	return events
}

// sendByPlugin is the life of one instance, from its start to its end.
func sendByPlugin(t testing.TB, config string, chunks [][]byte) {
	t.Helper()
	p := &plugin.Process{Version: "test", Log: io.Discard}
	in, err := p.Init(func(key string) string {
		if strings.EqualFold(key, "Webhook_Config_File") {
			return config
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Exit()
	for i, chunk := range chunks {
		if answer := in.Flush(chunk, "kube.audit"); answer != plugin.OK {
			t.Fatalf("chunk %d was answered %v, want OK", i, answer)
		}
	}
}

// sendByAPIServer is the life of one backend. Its events come one by one, as
// requests make them.
func sendByAPIServer(t testing.TB, url string, events []auditinternal.Event) {
	t.Helper()
	backend := apiServerBackend(t, url, func(o *options.AuditWebhookOptions) {
		o.BatchOptions.BatchConfig.AsyncDelegate = true // no flag changes it
		o.BatchOptions.BatchConfig.BufferSize = len(events)
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
}
