package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// This file sends the EventLists that a kube-apiserver posted to its webhook: each
// event in them must arrive once.

// webhookBodies returns the bodies, one a line, and writes a log of their events.
func webhookBodies(t *testing.T, log string) (bodies, events []string) {
	t.Helper()
	bodies = gunzipLines(t, "testdata/webhook-bodies.jsonl.gz")
	for _, body := range bodies {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			events = append(events, string(item))
		}
	}
	if len(bodies) != 21 || len(events) != 1266 {
		t.Fatalf("%d bodies with %d events, want 21 with 1266", len(bodies), len(events))
	}
	writeLines(t, log, events)
	return bodies, events
}

func TestEachEventThatTheAPIServerPostsToTheRelayArrivesOnce(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		for _, name := range []string{"relay.conf", "relay.yaml"} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				bodies, events := webhookBodies(t, log)
				r := receive(t, dir, log, "", "-semantic")
				p, post := relay(t, dir, name, r)
				for _, body := range bodies {
					post.send(body)
				}
				until(t, "all events are stored", func() bool { return r.stored() >= len(events) || p.ended() })
				p.stop()
				r.wantAll(len(events))
			})
		}
	})
}

// Where something else wrote the posts into a file, each line is an EventList, and its
// items are passed on byte for byte.
func TestEachEventOfEventListsInALogArrivesOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		dir := t.TempDir()
		log, posted := filepath.Join(dir, "audit.log"), filepath.Join(dir, "posted.log")
		bodies, events := webhookBodies(t, log)
		writeLines(t, posted, bodies)
		r := receive(t, dir, log, "")
		p := e.start(t, setup{dir: dir, log: posted, url: r.url, workers: 1})
		until(t, "all events are stored", func() bool { return r.stored() >= len(events) || p.ended() })
		p.stop()
		r.wantAll(len(events))
	})
}
