package record

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// This file tests what Last says of an event, and that the event is recognised by it.

// baseTime is at(base, 123456000) as one number, what a Time is of.
const baseTime = uint64(base)<<32 | 123456000

func TestLastDescribesTheEventOfEachForm(t *testing.T) {
	good := at(base, 123456000)
	const requestPair = `"requestReceivedTimestamp":"` + request + `"`
	whole := ev("a", "requestReceivedTimestamp", request, "stageTimestamp", request)
	bad := ev("a", "user", "\xff", "requestReceivedTimestamp", request)
	badLine := line("a", "\"user\":\"\xff\"", requestPair)
	list := func(items items) pairs { return pairs{"kind", "EventList", "items", items} }
	rawList := func(item string) pairs { return pairs{"log", `{"kind":"EventList","items":[ ` + item + ` ]}`} }
	const restoredBytes = len(`,"stageTimestamp":"2026-01-02T03:04:05.123456Z"`)
	tests := []struct {
		name  string
		chunk []byte
		want  Event
	}{
		{"parsed, whole", pack(recAt(good, whole)), Event{}},
		{"parsed, without both timestamps", pack(recAt(good, ev("a"))), Event{}},
		{"parsed, restored", pack(recAt(good, half(request))), Event{Restored: restoredBytes, Time: baseTime}},
		{"parsed, request time restored", pack(recAt(good, ev("a", "stageTimestamp", "2026-01-02T03:04:06.000000Z"))), Event{Restored: len(`,"requestReceivedTimestamp":"2026-01-02T03:04:05.123456Z"`), Time: baseTime}},
		{"parsed, left out", pack(recAt(good, half("yesterday"))), Event{Time: baseTime, LeftOut: true}},
		{"parsed, from the clock", pack(recAt(at(base, 123456789), half(request))), Event{Time: base<<32 | 123456789, LeftOut: true}},
		{"parsed, the other timestamp is no text", pack(recAt(good, half(nil))), Event{Time: baseTime, LeftOut: true}},
		{"parsed, time not known", pack(recAt(base, half(request))), Event{LeftOut: true}},
		{"parsed, impossible time", pack(recAt(at(base, 1e9), half(request))), Event{LeftOut: true}},
		{"parsed, of the older layout", pack(items{good, half(request)}), Event{Restored: restoredBytes, Time: baseTime}},
		{"parsed, after a key that is read twice", pack(recAt(good, append(pairs{"log", 7}, half(request)...))), Event{Restored: restoredBytes, Time: baseTime}},
		{"parsed, replaced and restored", pack(recAt(good, bad)), Event{Source: pack(bad), Restored: restoredBytes, Time: baseTime}},
		{"parsed, replaced in a key", pack(recAt(good, ev("a", "\xff", 1))), Event{Source: pack(ev("a", "\xff", 1))}},
		{"parsed, replaced, after a key that is read twice", pack(recAt(good, append(pairs{"log", 7}, bad...))), Event{Source: pack(append(pairs{"log", 7}, bad...)), Restored: restoredBytes, Time: baseTime}},
		{"raw", pack(recAt(good, pairs{"log", line("a", requestPair)})), Event{}},
		{"raw, replaced", pack(recAt(good, pairs{"log", " " + badLine + "\r\n"})), Event{Source: []byte(badLine)}},
		{"raw among others, replaced", pack(recAt(good, pairs{"path", "\xfe", "log", badLine})), Event{Source: []byte(badLine)}},
		{"raw, bytes replaced elsewhere in the record", pack(recAt(good, pairs{"path", "\xfe", "log", line("a", requestPair)})), Event{}},
		{"a map under Log_Key", pack(recAt(good, pairs{"log", half(request)})), Event{}},
		{"a map under Log_Key, replaced", pack(recAt(good, pairs{"log", bad, "path", "\xfe"})), Event{Source: pack(bad)}},
		{"item of a map", pack(recAt(good, list(items{half(request)}))), Event{}},
		{"item of a map, replaced", pack(recAt(good, list(items{7, bad}))), Event{Source: pack(bad)}},
		{"item of a map, others replaced", pack(recAt(good, list(items{pairs{"\xff", 1}, half(request)}))), Event{}},
		{"item of a raw line", pack(recAt(good, rawList(line("a", requestPair)))), Event{}},
		{"item of a raw line, replaced", pack(recAt(good, rawList("7 , "+badLine))), Event{Source: []byte(badLine)}},
		{"item of a raw line, others replaced", pack(recAt(good, rawList("\"\xff\","+line("a", requestPair)))), Event{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			times := new(Times)
			w := walk(t, NewReader(&restoring), test.chunk, times)
			if len(w.events) != 1 || !reflect.DeepEqual(w.last[0], test.want) {
				t.Errorf("%d events, %+v\nwant %+v", len(w.events), w.last, test.want)
			}
			test.want.Restored, test.want.LeftOut = 0, false
			w = walk(t, NewReader(&logKey), test.chunk, times)
			if len(w.events) != 1 || !reflect.DeepEqual(w.last[0], test.want) {
				t.Errorf("without Restore_Timestamp %d events, %+v\nwant %+v", len(w.events), w.last, test.want)
			}
		})
	}
}

func TestLastIsOfTheLastEventAppended(t *testing.T) {
	bad := line("a", "\"x\":\"\xff\"")
	r := NewReader(&restoring)
	expectLast := func(when string, want Event) {
		t.Helper()
		if got := r.Last(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	r.Reset(pack(7, rec(pairs{"log", bad}), 7, rec(pairs{"log", line("b")})), nil)
	expectLast("before the first event", Event{})
	r.Next(nil)
	expectLast("after the first event", Event{Source: []byte(bad)})
	if _, _, full := r.NextWithin(nil, false); !full {
		t.Fatal("an event fits into nothing")
	}
	expectLast("when the next one does not fit", Event{Source: []byte(bad)})
	r.NextWithin(nil, true)
	expectLast("after the second event", Event{})
	r.Reset(pack(rec(pairs{"log", bad})), nil)
	r.Next(nil)
	r.Reset(nil, nil)
	expectLast("after Reset", Event{})
}

// recordForms are chunks of one event each, no two of them alike.
func recordForms() (chunks [][]byte) {
	both := []any{"requestReceivedTimestamp", request, "stageTimestamp", request}
	for _, x := range []string{"user", "resu", "\xff", "\xfe", "\xff\xff", "\xe2\x82", "\ufffd", "\ufffd\ufffd"} {
		x += " of some length"
		for n, stamps := range [][]any{nil, both, both[:2], both[2:], {"stageTimestamp", nil}} {
			e := ev("a", append([]any{"x", x, "n", n}, stamps...)...)
			chunks = append(chunks, pack(rec(e)))
			if n == 2 || n == 3 {
				// Of whole microseconds, to either side of them, not restored, and of no clock at all.
				for _, time := range []any{at(base, 100000000), at(base, 99999999), at(base, 100000001), at(base, 100001000), at(base+1, 100000000), at(base, 5), base} {
					chunks = append(chunks, pack(recAt(time, e)))
				}
			}
		}
		// The same event as one of another form would be recognised as that one.
		chunks = append(chunks,
			pack(rec(pairs{"log", ev("map", "x", x, "requestReceivedTimestamp", request)})),
			pack(rec(pairs{"kind", "EventList", "items", items{ev("item", "x", x, "requestReceivedTimestamp", request)}})),
			pack(rec(pairs{"log", line("line", `"x":"`+x+`"`, `"requestReceivedTimestamp":"`+request+`"`)})),
			pack(rec(pairs{"log", `{"kind":"EventList","items":[` + line("line item", `"x":"`+x+`"`) + `]}`})))
	}
	return chunks
}

func TestEventIsRecognisedWhateverWasLearnt(t *testing.T) {
	chunks := recordForms()
	options := []Options{logKey, restoring}
	var warm []*Reader // of each
	for i := range options {
		warm = append(warm, NewReader(&options[i]))
		for range firstStreak {
			walk(t, warm[i], slices.Concat(chunks...), nil)
		}
	}
	known := map[string]int{}
	ways := 0 // chunks whose event came as it was read, restored, and left out
	for i, chunk := range chunks {
		var want string
		var asRead, restored, leftOut bool
		for o, opt := range options {
			for range 2*firstStreak + 5 {
				walk(t, warm[o], chunk, nil)
			}
			for _, seen := range []uint32{0, seenFraction, seenForeign, seenFraction | seenForeign} {
				for name, r := range map[string]*Reader{"cold": NewReader(&opt), "warm": warm[o]} {
					for range 2 {
						times := new(Times)
						times.note(seen)
						w := walk(t, r, chunk, times)
						if len(w.ids) != 1 {
							t.Fatalf("%q: %d events", chunk, len(w.ids))
						}
						if want == "" {
							want = w.ids[0]
						}
						if w.ids[0] != want {
							t.Errorf("%+v, %s, seen %d: recognised by %q, before by %q", opt, name, seen, w.ids[0], want)
						}
						e := w.last[0]
						asRead = asRead || e.Restored == 0 && !e.LeftOut
						restored, leftOut = restored || e.Restored > 0, leftOut || e.LeftOut
					}
				}
			}
		}
		if j, ok := known[want]; ok {
			t.Errorf("two events are recognised by %q\n%q\n%q", want, chunks[j], chunk)
		}
		known[want] = i
		if asRead && restored && leftOut {
			ways++
		}
	}
	// Of the times, those at and after the other timestamp, or at and before it.
	if want := 8 * (6 + 3); ways != want {
		t.Errorf("%d events came restored and left out, want %d", ways, want)
	}
}

func TestEventIsRecognisedInItsChunkAsAlone(t *testing.T) {
	chunks := recordForms()
	var alone []string
	for _, chunk := range chunks {
		alone = append(alone, walk(t, NewReader(&restoring), chunk, nil).ids...)
	}
	r := NewReader(&restoring)
	for n := range 2 * firstStreak {
		if w := walk(t, r, slices.Concat(chunks...), nil); !slices.Equal(w.ids, alone) {
			t.Fatalf("walk %d: recognised by\n%q, alone by\n%q", n, w.ids, alone)
		}
	}
}

func TestLinesThatDifferInAnyByteAreToldApart(t *testing.T) {
	l := line("a", "\"user\":\"somebody \u00e9\xff\"", `"verb":"get it"`)
	for name, makeRecord := range map[string]func(l string) []byte{
		"line":      func(l string) []byte { return pack(rec(pairs{"log", l})) },
		"line item": func(l string) []byte { return pack(rec(pairs{"log", `{"kind":"EventList","items":[` + l + `]}`})) },
	} {
		r := known(t, makeRecord(l))
		ids := map[string]string{}
		texts := map[string]bool{}
		for i := range len(l) {
			for c := range 256 {
				changed := l[:i] + string([]byte{byte(c)}) + l[i+1:]
				w := walk(t, r, makeRecord(changed), nil)
				if len(w.ids) != 1 {
					continue
				}
				if other, ok := ids[w.ids[0]]; ok && other != changed {
					t.Fatalf("%s: %q and %q are recognised by %q", name, other, changed, w.ids[0])
				}
				ids[w.ids[0]], texts[w.events[0]] = changed, true
			}
		}
		if len(ids) < 1000 || len(texts) > len(ids)-64 {
			t.Errorf("%s: %d lines became %d events; the test needs many, and some that become the same", name, len(ids), len(texts))
		}
	}
}

func TestMapsThatDifferInOneByteOfTextAreToldApart(t *testing.T) {
	with := func(text string) []byte { return pack(rec(ev("a", "user", text, text, "some verb"))) }
	const text = "somebody \u00e9\xff"
	r := known(t, with(text))
	ids := map[string]string{}
	for i := range len(text) {
		for c := range 256 {
			changed := text[:i] + string([]byte{byte(c)}) + text[i+1:]
			w := walk(t, r, with(changed), nil)
			if len(w.ids) != 1 {
				t.Fatalf("%q: %v", changed, w.skips)
			}
			if other, ok := ids[w.ids[0]]; ok && other != changed {
				t.Fatalf("%q and %q are recognised by %q", other, changed, w.ids[0])
			}
			ids[w.ids[0]] = changed
		}
	}
	if want := 255*len(text) + 1; len(ids) != want {
		t.Errorf("%d were told apart, want %d", len(ids), want)
	}
}

func TestRecordTimeTellsEventsApartOnlyWhereATimestampIsMissing(t *testing.T) {
	times := []any{at(base, 123456000), at(base, 123456001), at(base, 123455999), at(base+1, 123456000), at(base, 1), at(1, 0), at(0, 1)}
	for name, test := range map[string]struct {
		body pairs
		want int
	}{
		"one missing":               {half(request), len(times)},
		"one missing, replaced":     {ev("a", "\xff", 1, "stageTimestamp", request), len(times)},
		"both there":                {ev("a", "requestReceivedTimestamp", request, "stageTimestamp", request), 1},
		"both missing":              {ev("a"), 1},
		"raw line":                  {pairs{"log", line("a", `"stageTimestamp":"`+request+`"`)}, 1},
		"map under Log_Key":         {pairs{"log", half(request)}, 1},
		"item":                      {pairs{"kind", "EventList", "items", items{half(request)}}, 1},
		"item of a raw line":        {pairs{"log", fmt.Sprintf(`{"kind":"EventList","items":[%s]}`, line("a", `"stageTimestamp":"`+request+`"`))}, 1},
		"one missing, read twice":   {append(pairs{"log", 7}, half(request)...), len(times)},
		"one missing, not a string": {half(5), len(times)},
	} {
		for _, opt := range []Options{logKey, restoring} {
			ids := map[string]bool{}
			for _, time := range times {
				for _, id := range walk(t, NewReader(&opt), pack(recAt(time, test.body)), nil).ids {
					ids[id] = true
				}
			}
			if len(ids) != test.want {
				t.Errorf("%s, %+v: %d events are told apart, want %d: %v", name, opt, len(ids), test.want, ids)
			}
		}
	}
}
