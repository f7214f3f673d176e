package record

import (
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
	pos    []Position // before each Next
}

// walk reads a chunk from a position to its end. Each event is appended behind
// the others, as callers do.
func walk(t testing.TB, r *Reader, chunk []byte, from Position, times *Times) (w walked) {
	t.Helper()
	before := slices.Clone(chunk)
	r.OnSkip = func(s Skip) { w.skips = append(w.skips, s.Reason) }
	r.Reset(chunk, from, times)
	dst := []byte{}
	for {
		w.pos = append(w.pos, r.Position())
		out, ok := r.Next(dst)
		if !ok {
			if len(out) != len(dst) {
				t.Fatalf("at the end Next returned %d bytes, was given %d", len(out), len(dst))
			}
			break
		}
		w.events = append(w.events, string(out[len(dst):]))
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
	w := walk(t, NewReader(&logKey), chunk, Position{}, nil)
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

// resumes checks that from every position the rest of the walk is the same, and
// that nothing is counted twice.
func resumes(t testing.TB, opt *Options, chunk []byte, times *Times, stride int) {
	t.Helper()
	r := NewReader(opt)
	walk(t, r, chunk, Position{}, times) // times is settled from here on
	whole := walk(t, r, chunk, Position{}, times)
	end := r.Position()
	for i := 0; i < len(whole.pos); i += stride {
		p := whole.pos[i]
		rest := walk(t, r, chunk, p, times)
		if !slices.Equal(rest.events, whole.events[i:]) {
			t.Fatalf("resumed at %+v: got %d events, want the last %d of %d", p, len(rest.events), len(whole.events)-i, len(whole.events))
		}
		if rest.stats.Events != len(whole.events)-i {
			t.Fatalf("resumed at %+v: counted %d events of %d", p, rest.stats.Events, len(rest.events))
		}
		again := walk(t, r, chunk, p.CountedTo(end), times)
		if !slices.Equal(again.events, whole.events[i:]) {
			t.Fatalf("resumed at %+v after counting all: other events", p)
		}
		if again.stats != (Stats{}) || again.skips != nil {
			t.Fatalf("resumed at %+v after counting all: counted again %+v, %v", p, again.stats, again.skips)
		}
	}
}
