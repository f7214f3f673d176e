package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// agrees compares a walk with the reference, and checks what holds for each
// walk: every event is JSON in UTF-8, and it is recognised by what it was
// recognised by when less was known.
func agrees(t *testing.T, opt *Options, chunk []byte) (ids []string) {
	t.Helper()
	times := new(Times)
	r := NewReader(opt)
	first := walk(t, r, chunk, times) // settles times
	w := walk(t, r, chunk, times)
	events, skipped := refWalk(chunk, *opt, times.seen.Load())
	for i := range min(len(events), len(w.events)) {
		want, text, e := events[i], w.events[i], w.last[i]
		if text != want.restored {
			t.Fatalf("event %d\n got %q\nwant %q", i, text, want.restored)
		}
		if read := text[:len(text)-len("}")-e.Restored] + "}"; read != want.read {
			t.Fatalf("event %d, without its last %d bytes\n got %q\nwant %q", i, e.Restored, read, want.read)
		}
		if e.Time != want.time || e.LeftOut != want.leftOut {
			t.Fatalf("event %d: time %#x, left out %v, want %#x, %v", i, e.Time, e.LeftOut, want.time, want.leftOut)
		}
		var source any
		if len(e.Source) > 0 && e.Source[0] == '{' {
			source = string(e.Source)
		} else if e.Source != nil {
			v, rest, err := refDecode(e.Source)
			if err != nil || len(rest) > 0 {
				t.Fatalf("event %d: %v, %q after the map that is its source", i, err, rest)
			}
			source = v
		}
		if !reflect.DeepEqual(source, want.source) {
			t.Fatalf("event %d: read from\n     %q\nwant %q", i, source, want.source)
		}
	}
	if len(w.events) != len(events) || len(w.skips) != skipped {
		t.Fatalf("%d events and %d skipped (%v), want %d and %d", len(w.events), len(w.skips), w.skips, len(events), skipped)
	}
	if !slices.Equal(w.ids, first.ids) || !slices.Equal(w.skips, first.skips) {
		t.Fatalf("read again\n got %q, %v\nwant %q, %v", w.ids, w.skips, first.ids, first.skips)
	}
	for _, e := range w.events {
		if !json.Valid([]byte(e)) || !utf8.ValidString(e) {
			t.Fatalf("not JSON in UTF-8: %q", e)
		}
	}
	if slices.Contains(w.skips, Panicked) {
		t.Fatal("a record panicked")
	}
	return w.ids
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
		pack(recAt(at(base, 123456000), half("\xff")), recAt(at(base, 5), half("\xfe")), rec(pairs{"log", half("\xff")}), rec(pairs{"log", line("a", "\"\xff\":1")})),
		pack(rec(pairs{"kind", "EventList", "items", items{half(request), ev("a", "\xff", 1), ev("b")}}), rec(pairs{"log", strings.Replace(raw, "7", line("\xff"), 1)})),
		readData(f, "mixed-shapes.msgpack"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, chunk []byte) {
		off, on := agrees(t, &logKey, chunk), agrees(t, &restoring, chunk)
		if !slices.Equal(off, on) {
			t.Fatalf("recognised by\n%q without restoring, by\n%q with it", off, on)
		}
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
		w := walk(t, NewReader(&logKey), pack(rec(pairs{"log", str32(text)})), nil)
		if len(w.events) != len(want) {
			t.Fatalf("%q\n got %q\nwant %+v", text, w.events, want)
		}
		for i, e := range want {
			source, _ := e.source.(string)
			if w.events[i] != e.read || string(w.last[i].Source) != source {
				t.Fatalf("%q\n got %q from %q\nwant %q from %q", text, w.events[i], w.last[i].Source, e.read, source)
			}
		}
		for _, e := range w.events {
			if !utf8.ValidString(e) || utf8.Valid(text) && !strings.Contains(string(text), e) {
				t.Fatalf("%q became %q", text, e)
			}
		}
	})
}
