package record

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// agrees compares a walk with the reference, and checks what holds for each
// walk: every event is JSON in UTF-8, and it can be resumed anywhere.
func agrees(t *testing.T, opt *Options, chunk []byte) {
	t.Helper()
	times := new(Times)
	r := NewReader(opt)
	walk(t, r, chunk, Position{}, times) // settles times
	w := walk(t, r, chunk, Position{}, times)
	events, skipped := refWalk(chunk, *opt, times.seen.Load())
	for i := range min(len(events), len(w.events)) {
		if events[i] != w.events[i] {
			t.Fatalf("event %d\n got %q\nwant %q", i, w.events[i], events[i])
		}
	}
	if len(w.events) != len(events) || len(w.skips) != skipped {
		t.Fatalf("%d events and %d skipped (%v), want %d and %d", len(w.events), len(w.skips), w.skips, len(events), skipped)
	}
	for _, e := range w.events {
		if !json.Valid([]byte(e)) || !utf8.ValidString(e) {
			t.Fatalf("not JSON in UTF-8: %q", e)
		}
	}
	if slices.Contains(w.skips, Panicked) {
		t.Fatal("a record panicked")
	}
}

func FuzzChunk(f *testing.F) {
	raw := `{"kind":"EventList","items":[` + line("a") + `, 7 ,` + line("b") + `]}`
	for _, seed := range [][]byte{
		pack(rec(ev("a", "x", items{1, -1, 1.5, nil, true, "\u00e9\xff\"", pairs{"k", pairs{}}}))),
		pack(rec(pairs{"log", line("a", `"x":[1,-2.5e3,null,true,false,{"k":"\u00e9\n"}]`)}), rec(ev("b"))),
		pack(rec(pairs{"log", raw}), rec(pairs{"log", ev("a")}), rec(pairs{"log", []byte("{}")})),
		pack(rec(pairs{"kind", "EventList", "items", items{ev("a"), 7, ev("b", "x", float32(2))}})),
		pack(items{at(base, 1000), ev("a")}, items{1, ev("b")}, recAt(at(1<<32-1, 0), pairs{})),
		pack(recAt(at(base, 123456000), half(request)), recAt(at(base+1, 0), half(request)), recAt(at(base, 5), half(request))),
		pack(recAt(at(base, 99999999), ev("a", "stageTimestamp", request))),
		pack(rec(ev("a", "x", extern{0, "12345678"})), 7, arr32{map32{}, map16{"log", bin32("x")}}, msg("\xc1")),
		readData(f, "mixed-shapes.msgpack"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, chunk []byte) {
		agrees(t, &logKey, chunk)
		agrees(t, &restoring, chunk)
		resumes(t, &restoring, chunk, new(Times), 1)
	})
}

func FuzzRawLine(f *testing.F) {
	for _, seed := range []string{
		line("a"), " " + line("a", `"x":"`+strings.Repeat("y", 20)+"\u00e9\"") + "\n", `{"auditID":"a","stage":"\u0073"}`,
		`{"kind":"EventList","items":[{"auditID":"a","stage":"s"},[],{"x":{}}]}`, `[1,-2.5E+3,"\ud83d\ude00",null]`, "{\"\xff\":\"\xe2\x82\"}",
		`{"\u0061uditID":"a","stage":"s","stage":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c checker
		var fs fields
		from, to, _, reason := c.line(text, &fs)
		if valid := json.Valid(text); valid != (reason == none) {
			t.Fatalf("%q: %v; encoding/json says %v", text, reason, valid)
		}
		if reason != none {
			return
		}
		if c.invalid == utf8.Valid(text) {
			t.Fatalf("%q: invalid UTF-8 %v", text, c.invalid)
		}
		if to-from != len(strings.Trim(string(text), " \t\r\n")) {
			t.Fatalf("%q: bounds %d, %d", text, from, to)
		}
		want, _ := refLine(text)
		w := walk(t, NewReader(&logKey), pack(rec(pairs{"log", str32(text)})), Position{}, nil)
		if !slices.Equal(w.events, want) {
			t.Fatalf("%q\n got %q\nwant %q", text, w.events, want)
		}
		for _, e := range w.events {
			if !utf8.ValidString(e) || utf8.Valid(text) && !strings.Contains(string(text), e) {
				t.Fatalf("%q became %q", text, e)
			}
		}
	})
}
