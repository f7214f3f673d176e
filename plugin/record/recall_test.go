package record

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// This file holds a Reader that remembers what it has read against one that has read
// nothing.

// readsAlike compares what a Reader that knows other chunks makes of a chunk with what
// a new one does.
func readsAlike(t *testing.T, knowing *Reader, chunk []byte) {
	t.Helper()
	want := walk(t, NewReader(&restoring), chunk, nil)
	got := walk(t, knowing, chunk, nil)
	if !slices.Equal(got.events, want.events) {
		t.Fatalf("of %q\n got %q\nwant %q", chunk, got.events, want.events)
	}
	if !reflect.DeepEqual(got.last, want.last) {
		t.Fatalf("of %q: the events are\n%+v, want\n%+v", chunk, got.last, want.last)
	}
	if !slices.Equal(got.skips, want.skips) || got.stats != want.stats {
		t.Fatalf("of %q: skipped %v, %+v, want %v, %+v", chunk, got.skips, got.stats, want.skips, want.stats)
	}
}

// known is a Reader that has read the chunk so often that it takes what always came
// together for one.
func known(t testing.TB, chunk []byte) *Reader {
	r := NewReader(&restoring)
	for range 2*firstStreak + 5 {
		walk(t, r, chunk, nil)
	}
	return r
}

// likeTheLogs are lines of both levels, a few of each.
func likeTheLogs(t testing.TB) (lines [][]byte) {
	all := logLines(t, "metadata")
	lines = append(lines, all[:4]...)
	lines = append(lines, all[500:503]...)
	for _, l := range logLines(t, "requestresponse") {
		if len(l) < 1500 && len(lines) < 10 {
			lines = append(lines, l)
		}
	}
	return lines
}

func TestOneOtherByteInWhatIsKnownIsNoticed(t *testing.T) {
	lines := likeTheLogs(t)
	raw, parsed := known(t, rawChunk(lines)), known(t, parsedChunk(t, lines))
	others := []byte("\"\\,}]x \xff\x00\x81\xa5\xdf")
	for n, l := range lines {
		chunk := []byte(rec(pairs{"log", string(l)}))
		from := strings.Index(string(chunk), string(l))
		for i := from; i < len(chunk); i++ {
			changed := slices.Clone(chunk)
			changed[i] = others[(i+n)%len(others)]
			readsAlike(t, raw, changed)
		}
		whole := parsedChunk(t, lines[n:n+1])
		for i := range whole {
			changed := slices.Clone(whole)
			changed[i] = others[(i+n)%len(others)]
			readsAlike(t, parsed, changed)
		}
	}
}

func TestWhatIsKnownCutAnywhereIsRefused(t *testing.T) {
	lines := likeTheLogs(t)
	raw, parsed := known(t, rawChunk(lines)), known(t, parsedChunk(t, lines))
	for n, l := range lines {
		for i := range l {
			readsAlike(t, raw, []byte(rec(pairs{"log", string(l[:i])})))
		}
		whole := parsedChunk(t, lines[n:n+1])
		for i := range whole {
			readsAlike(t, parsed, whole[:i:i])
		}
	}
}

func TestWhatOnlyLooksKnownIsReadAnew(t *testing.T) {
	raw := func(lines ...string) (chunk []byte) {
		for _, l := range lines {
			chunk = append(chunk, rec(pairs{"log", l})...)
		}
		return chunk
	}
	parsed := func(events ...pairs) (chunk []byte) {
		for _, e := range events {
			chunk = append(chunk, rec(e)...)
		}
		return append(chunk, rec(ev("behind"))...) // what little is left at the end is read anew
	}
	usual := ev("a", "level", "Metadata", "verb", "a verb of some length", "user", pairs{"username", "somebody"})
	for name, tt := range map[string]struct{ before, chunk []byte }{
		"a number that goes on":       {raw(line("a", `"n":123456789012345678`)), raw(line("a", `"n":1234567890123456789`))},
		"a number that is another":    {raw(line("a", `"n":12345678901234567`, `"m":1`)), raw(line("a", `"n":12345678901234567e`, `"m":1`))},
		"bytes that are not UTF-8":    {raw(line("a", "\"user\":\"some\xffbody there\"")), raw(line("a", "\"user\":\"some\xffbody there\""))},
		"a raw key that is not UTF-8": {raw(line("a", "\"some\xffkey\":1")), raw(line("a", "\"some\xffkey\":1"))},
		"a key that is not UTF-8":     {parsed(ev("a", "some\xffkey", "v")), parsed(ev("a", "some\xffkey", "v"))},
		"a value that is not UTF-8":   {parsed(ev("a", "k", "some\xffbody there")), parsed(ev("a", "k", "some\xffbody there"))},
		"an escape in what counts":    {raw(line("a", `"kind":"\u0045vent"`)), raw(line("a", `"kind":"\u0045vent"`))},
		"an escape in a key":          {raw(line("a", `"\u006bind":"Event"`)), raw(line("a", `"\u006bind":"Other"`))},
		"no string where one counts":  {raw(`{"auditID":"a","stage":{"of":"what"},"user":"somebody here"}`), raw(`{"auditID":"a","stage":{"of":"what"},"user":"somebody here"}`)},
		"an array where one counts":   {parsed(pairs{"auditID", "a", "stage", items{"of", "what"}}), parsed(pairs{"auditID", "a", "stage", items{"of", "what"}})},
		"white space": {
			raw(line("a", `"user":"somebody here" ,"verb":"get"`), line("a", `"user":"somebody here", "verb":"get"`), line("a", `"user": "somebody here","verb":"get"`)),
			raw(line("a", `"user":"somebody here" ,"verb":"get"`), line("a", `"user":"somebody here", "verb":"get"`), line("a", `"user": "somebody here","verb":"get"`)),
		},
		"a key that is new among the others": {
			parsed(usual, usual),
			parsed(usual, append(pairs{"cluster", "one"}, usual...), usual, append(pairs{"region", "two", "cluster", "one"}, usual...), usual),
		},
		"what always came together, one at a time": {
			parsed(usual, usual),
			parsed(
				append(slices.Clone(usual[:len(usual)-4]), "verb", "another one of some length", "user", pairs{"username", "somebody"}),
				append(slices.Clone(usual[:len(usual)-2]), "user", pairs{"username", "somebody else"}),
				usual[:len(usual)-2], usual[:len(usual)-4],
			),
		},
		"a kind that always came with its apiVersion": {
			raw(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"s","user":"somebody here"}`),
			raw(`{"kind":"Event","apiVersion":"audit.k8s.io/v2","level":"Metadata","auditID":"a","stage":"s","user":"somebody here"}`,
				`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":5,"user":"somebody here"}`,
				`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"s","user":"somebody here"}`),
		},
		"other keys with the same values": {
			parsed(ev("a", "one", "a value of some length", "two", "a value of some length", "three", "x")),
			parsed(ev("a", "two", "a value of some length", "one", "a value of some length", "three", "x")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			knowing := known(t, tt.before)
			for range 3 {
				readsAlike(t, knowing, tt.chunk)
			}
		})
	}
}

func TestAKnownValueThatIsTheLastOfItsMapEndsThere(t *testing.T) {
	pair := pairs{"level", "a level of some length", "verb", "a verb of some length"}
	known := known(t, pack(rec(append(ev("a"), pair...)), rec(append(ev("b"), pair...))))
	// Behind the map stands, as a value of its own, what was a key before.
	readsAlike(t, known, pack(rec(append(ev("c"), pair[:2]...)), "verb", "a verb of some length", rec(ev("d"))))
}

func TestMembersInAnyOrderAndNumber(t *testing.T) {
	var chunk []byte
	for n := range 200 {
		var more []any
		for k := range 40 {
			if (n*7+k*3)%5 > 0 {
				more = append(more, "key"+strings.Repeat("x", (n+k*k)%60), "a value of some length "+strings.Repeat("y", (k*n)%3*40))
			}
		}
		chunk = append(chunk, rec(ev("a", more...))...)
	}
	readsAlike(t, known(t, chunk), chunk)
	for range 3 {
		readsAlike(t, known(t, parsedChunk(t, likeTheLogs(t))), chunk)
	}
}

func TestLargeValuesAreNotKept(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, chunk := range map[string][]byte{
		"raw":    pack(rec(pairs{"log", line("a", `"requestObject":"`+large+`"`, `"verb":"get"`)})),
		"parsed": pack(rec(ev("a", "requestObject", large, "verb", "get"))),
	} {
		r := known(t, chunk)
		kept := cap(r.convert.run)
		for _, m := range [][]member{r.convert.memory.members, r.check.memory.members} {
			for _, p := range m {
				if p.values == nil {
					continue
				}
				for i := range p.values {
					kept += cap(p.values[i].run) + cap(p.values[i].json)
				}
			}
		}
		if kept == 0 && name == "parsed" || kept > 64<<10 {
			t.Errorf("%s: %d bytes are kept of an event of %d", name, kept, len(chunk))
		}
	}
}

func FuzzRecall(f *testing.F) {
	for _, l := range likeTheLogs(f) {
		f.Add([]byte(rec(pairs{"log", string(l)})), []byte(rec(pairs{"log", string(l)})))
		parsed := parsedChunk(f, [][]byte{l})
		f.Add(parsed, parsed)
	}
	f.Fuzz(func(t *testing.T, before, chunk []byte) {
		readsAlike(t, known(t, before), chunk)
	})
}
