package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// requestsIn reads what -requests wrote.
func requestsIn(t *testing.T, file string) (all []request) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func TestEachRequestIsWrittenDownWithItsTimesAndLines(t *testing.T) {
	dir := t.TempDir()
	store, requests := filepath.Join(dir, "store"), filepath.Join(dir, "requests")
	const delay = 20 * time.Millisecond
	before := time.Now()
	s := start(t, "-store", store, "-requests", requests, "-delay", delay.String(), "-fail-every", "2")
	mustPost(t, s, 200, list(line("a", "Panic"), line("b", "Panic")))
	mustPost(t, s, 503, list(line("c", "Panic")))
	s.end()
	// A later process goes on counting the lines.
	s = start(t, "-store", store, "-requests", requests)
	mustPost(t, s, 400, "no list")
	mustPost(t, s, 200, list(line("d", "Panic")))
	s.end()

	got := requestsIn(t, requests)
	want := []request{{First: 1, Events: 2}, {}, {}, {First: 3, Events: 1}}
	if len(got) != len(want) {
		t.Fatalf("%d requests, want %d", len(got), len(want))
	}
	for i, r := range got {
		if r.First != want[i].First || r.Events != want[i].Events {
			t.Errorf("request %d: %d lines from %d, want %d from %d", i, r.Events, r.First, want[i].Events, want[i].First)
		}
		if r.Begin.Before(before) || r.End.Before(r.Begin) || i < 2 && r.End.Sub(r.Begin) < delay {
			t.Errorf("request %d: from %v to %v", i, r.Begin, r.End)
		}
		before = r.End
	}
}
