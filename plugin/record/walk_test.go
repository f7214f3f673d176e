package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// This file is what the tests walk chunks with.

var logKey = Options{LogKey: "log"}

// walked is what a walk came to.
type walked struct {
	events []string
	skips  []Reason
	stats  Stats
	last   []Event  // of each event
	ids    []string // of each event
	ends   []int    // of each event's record, or of its list
}

// identity is what an event is recognised by.
func identity(text string, e Event) string {
	if e.Source != nil {
		text = string(e.Source)
	} else {
		text = text[:len(text)-len("}")-e.Restored]
	}
	return fmt.Sprintf("%s %x", text, e.Time)
}

// walk reads a chunk. Each event is appended behind the others, as callers do.
func walk(t testing.TB, r *Reader, chunk []byte, times *Times) (w walked) {
	t.Helper()
	before := slices.Clone(chunk)
	r.OnSkip = func(s Skip) { w.skips = append(w.skips, s.Reason) }
	r.Reset(chunk, times)
	dst := []byte{}
	for {
		out, ok := r.Next(dst)
		if !ok {
			if len(out) != len(dst) {
				t.Fatalf("at the end Next returned %d bytes, was given %d", len(out), len(dst))
			}
			break
		}
		text, last := string(out[len(dst):]), r.Last()
		w.events = append(w.events, text)
		w.last = append(w.last, last)
		w.ids = append(w.ids, identity(text, last))
		w.ends = append(w.ends, r.offset)
		dst = out
	}
	w.stats = r.Stats()
	if string(dst) != strings.Join(w.events, "") {
		t.Fatal("appending an event changed what was in dst before")
	}
	if !slices.Equal(chunk, before) {
		t.Fatal("the walk changed the chunk")
	}
	return w
}

// expect walks a chunk with Log_Key log and compares events and skips.
func expect(t *testing.T, chunk []byte, events []string, skips ...Reason) walked {
	t.Helper()
	w := walk(t, NewReader(&logKey), chunk, nil)
	if !slices.Equal(w.events, events) {
		t.Errorf("events\n got %q\nwant %q", w.events, events)
	}
	if !slices.Equal(w.skips, skips) {
		t.Errorf("skipped: got %v, want %v", w.skips, skips)
	}
	if w.stats.Events != len(events) {
		t.Errorf("Stats.Events = %d, want %d", w.stats.Events, len(events))
	}
	n := 0
	for _, k := range w.stats.Skipped {
		n += k
	}
	if n != len(skips) {
		t.Errorf("Stats.Skipped adds up to %d, want %d", n, len(skips))
	}
	return w
}
