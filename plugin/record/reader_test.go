package record

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRecordShapes(t *testing.T) {
	a, b := line("a"), line("b")
	good := rec(ev("a"))
	legacy := func(time any) msg { return msg(pack(items{time, ev("a")})) }
	list := pairs{"kind", "EventList", "apiVersion", "audit.k8s.io/v1", "metadata", pairs{}, "items", items{ev("a"), 7, pairs{"x", 1}, ev("b")}}
	rawList := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + a + ` , 7,{"x":1},` + b + `]}`
	tests := []struct {
		name   string
		chunk  []byte
		events []string
		skips  []Reason
	}{
		{"empty chunk", nil, nil, nil},
		{"body is an array, then a good record", pack(msg("\x92\xce\x5e\xa9\x17\xe0\x91\xa1x"), good), []string{a}, []Reason{NotRecord}},
		{"top-level integer", pack(0, good), []string{a}, []Reason{NotRecord}},
		{"top-level nil", pack(nil, good), []string{a}, []Reason{NotRecord}},
		{"top-level boolean", pack(true, good), []string{a}, []Reason{NotRecord}},
		{"top-level map", pack(pairs{"a", 1, "b", 2}, good), []string{a}, []Reason{NotRecord}},
		{"top-level array of three", pack(items{1, ev("x"), 2}, good), []string{a}, []Reason{NotRecord}},
		{"body is text in mid-chunk", pack(good, msg("\x92\xce\x00\x00\x00\x01\xa1z"), good), []string{a, a}, []Reason{NotRecord}},
		{"cut record at the end", pack(good, msg("\x92\xce\x5e")), []string{a}, []Reason{Broken}},
		{"the byte msgpack never uses", pack(good, msg("\xc1"), good), []string{a}, []Reason{Broken}},
		{"time fixint", pack(legacy(1)), []string{a}, nil},
		{"time uint32", pack(legacy(msg("\xce\x5e\xa9\x17\xe0"))), []string{a}, nil},
		{"time float", pack(legacy(msg("\xcb\x41\xd7\xaa\x45\xf8\x00\x00\x00"))), []string{a}, nil},
		{"time ext8", pack(legacy(extern{0, "\x5e\xa9\x17\xe0\x00\x00\x00\x00"})), []string{a}, nil},
		{"time of an unknown ext", pack(legacy(extern{5, "xyz"})), []string{a}, nil},
		{"time nil", pack(legacy(nil)), []string{a}, nil},
		{"time text", pack(legacy("now")), []string{a}, nil},
		{"time map", pack(legacy(pairs{"t", 1})), []string{a}, nil},
		{"no time", pack(legacy(items{})), []string{a}, nil},
		{"both layouts in one chunk", pack(good, legacy(at(5, 0)), good), []string{a, a, a}, nil},
		{"metadata not a map", pack(items{items{at(5, 0), 7}, ev("a")}), []string{a}, nil},
		{"metadata missing", pack(items{items{at(5, 0)}, ev("a")}), []string{a}, nil},
		{"metadata map32", pack(items{items{at(5, 0), map32{}}, map32(ev("a"))}), []string{a}, nil},
		{"frame of array32", pack(arr32{arr32{at(5, 0), map16{}}, map16(ev("a"))}), []string{a}, nil},
		{"group markers", pack(recAt(at(1<<32-1, 0), pairs{"x", 1}), good, recAt(at(1<<32-2, 0), pairs{})), []string{a}, nil},
		{"empty body", pack(rec(pairs{})), nil, []Reason{NotAuditEvent}},

		{"raw line in fixstr's wider brothers", pack(rec(pairs{"log", str8(a)}), rec(pairs{"log", str16(a)}), rec(pairs{"log", str32(a)})), []string{a, a, a}, nil},
		{"raw line as bytes", pack(rec(pairs{"log", []byte(a)}), rec(pairs{"log", bin16(a)}), rec(pairs{"log", bin32(a)})), []string{a, a, a}, nil},
		{"keys as bytes", pack(rec(pairs{[]byte("log"), a}), rec(pairs{[]byte("auditID"), "a", "stage", []byte("s")})), []string{a, `{"auditID":"a","stage":"s"}`}, nil},
		{"raw line among other keys", pack(rec(pairs{"path", "/x", "kubernetes", pairs{"ns", "y"}, 3, msg("\xd4\x05x"), "log", a})), []string{a}, nil},
		{"raw line before other keys", pack(rec(pairs{"log", a, "kubernetes", pairs{"ns", "y"}})), []string{a}, nil},
		{"white space around the line", pack(rec(pairs{"log", " \t" + a + "\r\n"})), []string{a}, nil},
		{"event as a map under Log_Key", pack(rec(pairs{"log", ev("a")})), []string{a}, nil},
		{"event as a map under Log_Key, with others", pack(rec(pairs{"a", pairs{}, "log", ev("a"), "b", items{}})), []string{a}, nil},
		{"event beats its own Log_Key", pack(rec(ev("a", "log", b)), rec(append(pairs{"log", b}, ev("a")...))), []string{line("a", `"log":`+quoted(b)), `{"log":` + quoted(b) + `,` + a[1:]}, nil},
		{"the last Log_Key counts", pack(rec(pairs{"log", a, "log", b})), []string{b}, nil},
		{"one of each", pack(good, rec(pairs{"log", a}), rec(pairs{"log", "not json"}), rec(pairs{"log", ev("b")})), []string{a, a, b}, []Reason{NotJSON}},

		{"list as a map", pack(rec(list), good), []string{a, b, a}, []Reason{NotAuditEvent, NotAuditEvent}},
		{"list as a map, items first", pack(rec(pairs{"items", items{ev("a")}, "kind", "EventList"})), []string{a}, nil},
		{"list under Log_Key", pack(rec(pairs{"log", list})), []string{a, b}, []Reason{NotAuditEvent, NotAuditEvent}},
		{"list in a raw line", pack(rec(pairs{"log", rawList}), good), []string{a, b, a}, []Reason{LineNotAuditEvent, LineNotAuditEvent}},
		{"list without items in it", pack(rec(pairs{"kind", "EventList", "items", items{}}), rec(pairs{"log", `{"kind":"EventList","items":[ ]}`}), good), []string{a}, nil},
		{"list of another API", pack(rec(pairs{"kind", "EventList", "apiVersion", "v1", "items", items{ev("a")}})), nil, []Reason{OtherKind}},
		{"list whose items are none", pack(rec(pairs{"kind", "EventList", "items", pairs{}})), nil, []Reason{NotAuditEvent}},
		{"list with the fields of an event", pack(rec(ev("a", "kind", "EventList")), rec(pairs{"log", line("a", `"kind":"EventList"`)})), nil, []Reason{NotAuditEvent, LineNotAuditEvent}},
		{"event that has items", pack(rec(append(pairs{"items", items{1}}, ev("a")...))), []string{`{"items":[1],` + a[1:]}, nil},

		{"kind and apiVersion absent", pack(rec(pairs{"auditID", "a", "stage", "s"}), rec(pairs{"log", `{"auditID":"a","stage":"s"}`})), []string{`{"auditID":"a","stage":"s"}`, `{"auditID":"a","stage":"s"}`}, nil},
		{"other kind", pack(rec(ev("a", "kind", "Pod")), rec(pairs{"log", line("a", `"kind":"Pod"`)})), nil, []Reason{OtherKind, OtherKind}},
		{"other apiVersion", pack(rec(ev("a", "apiVersion", "audit.k8s.io/v1beta1")), rec(ev("a", "apiVersion", nil))), nil, []Reason{OtherKind, OtherKind}},
		{"the last kind counts", pack(rec(append(pairs{"kind", "Pod"}, ev("a")...)), rec(pairs{"log", `{"kind":"Pod",` + a[1:]})), []string{`{"kind":"Pod",` + a[1:], `{"kind":"Pod",` + a[1:]}, nil},
		{"auditID not a string", pack(rec(ev("a", "auditID", 1)), rec(pairs{"log", line("a", `"stage":null`)})), nil, []Reason{NotAuditEvent, LineNotAuditEvent}},
		{"no stage", pack(rec(pairs{"auditID", "a"}), rec(pairs{"log", `{"auditID":"a"}`})), nil, []Reason{NotAuditEvent, LineNotAuditEvent}},
		{"names written with escapes", pack(rec(pairs{"log", `{"\u0061uditID":"a","st\u0061ge":"s","kind":"\u0045vent"}`})), []string{`{"\u0061uditID":"a","st\u0061ge":"s","kind":"\u0045vent"}`}, nil},
		{"another name written with escapes", pack(rec(pairs{"log", `{"auditID\u0000":"a","stage":"s"}`})), nil, []Reason{LineNotAuditEvent}},
		{"Log_Key holds a number", pack(rec(pairs{"log", 7})), nil, []Reason{NotAuditEvent}},
		{"line is JSON but no object", pack(rec(pairs{"log", `[1]`}), rec(pairs{"log", `"x"`})), nil, []Reason{LineNotAuditEvent, LineNotAuditEvent}},
		{"line is empty, cut, or two", pack(rec(pairs{"log", ""}), rec(pairs{"log", a[:40]}), rec(pairs{"log", a + a}), rec(pairs{"log", a + "x"})), nil, []Reason{NotJSON, NotJSON, NotJSON, NotJSON}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, test.chunk, test.events, test.skips...)
		})
	}
}

func quoted(s string) string {
	var w strings.Builder
	refString(&w, s)
	return w.String()
}

func TestHostileLengths(t *testing.T) {
	good := rec(ev("a"))
	for name, bad := range map[string]string{
		"array32":            "\xdd\xff\xff\xff\xff",
		"map32":              "\xdf\xff\xff\xff\xff",
		"str32":              "\xdb\x7f\xff\xff\xffa",
		"ext32":              "\xc9\xff\xff\xff\xff\x00",
		"in a record's body": "\x92\x01\xdf\xff\xff\xff\xff\xa1a",
		"in a raw line":      "\x92\x01\x81\xa3log\xdb\xff\xff\xff\xff{}",
		"in an event":        "\x92\x01\x83\xa7auditID\xa1a\xa5stage\xa1s\xa1x\xdd\xff\xff\xff\xff\xc0",
		"deep and cut":       strings.Repeat("\x91", 100_000),
		"deep pairs and cut": strings.Repeat("\x92", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			w := expect(t, pack(good, msg(bad)), []string{line("a")}, Broken)
			if w.stats.BrokenBytes != len(bad) || w.stats.Records != 1 {
				t.Errorf("BrokenBytes %d, Records %d, want %d and 1", w.stats.BrokenBytes, w.stats.Records, len(bad))
			}
		})
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(n int) msg { return msg(strings.Repeat("\x91", n-1) + "\x90") }
	raw := func(n int) string { return `"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) }
	good := rec(ev("a"))
	chunk := pack(
		rec(ev("a", "x", nested(MaxDepth))), good,
		rec(pairs{"log", line("a", raw(MaxDepth))}), good,
		rec(pairs{"kind", "EventList", "items", items{ev("a", "x", nested(MaxDepth)), ev("a")}}))
	a := line("a")
	expect(t, chunk, []string{a, a, a}, TooDeep, TooDeep, TooDeep)

	deepest := pack(rec(ev("a", "x", nested(MaxDepth-1))), rec(pairs{"log", line("a", raw(MaxDepth-1))}))
	expect(t, deepest, []string{line("a", raw(MaxDepth-1)), line("a", raw(MaxDepth-1))})

	beside := pack(rec(pairs{"x", nested(2 * MaxDepth), "log", a}))
	expect(t, beside, []string{a})
}

func TestSkipIsReportedWithItsBytesInEachWalk(t *testing.T) {
	odd := rec(pairs{"log", "not json"})
	list := rec(pairs{"kind", "EventList", "items", items{ev("a"), pairs{"x", 1}, ev("b")}})
	lines := rec(pairs{"log", `{"kind":"EventList","items":[{"x":1},` + line("a") + `, 7 ]}`})
	chunk := pack(odd, list, lines, msg("\xc1\xc1"))
	want := []Skip{
		{Reason: NotJSON, Offset: 0, Item: -1, Raw: []byte(odd), Line: []byte("not json")},
		{Reason: NotAuditEvent, Offset: len(odd), Item: 1, Raw: pack(pairs{"x", 1})},
		{Reason: LineNotAuditEvent, Offset: len(odd) + len(list), Item: 0, Raw: []byte(`{"x":1}`)},
		{Reason: LineNotAuditEvent, Offset: len(odd) + len(list), Item: 2, Raw: []byte("7")},
		{Reason: Broken, Offset: len(odd) + len(list) + len(lines), Item: -1, Raw: []byte("\xc1\xc1")},
	}
	wantStats := Stats{Events: 3, Records: 3, BrokenBytes: 2}
	wantStats.Skipped[NotJSON], wantStats.Skipped[NotAuditEvent], wantStats.Skipped[LineNotAuditEvent], wantStats.Skipped[Broken] = 1, 1, 2, 1

	r := NewReader(&logKey)
	for range 2 {
		var skips []Skip
		r.OnSkip = func(s Skip) {
			s.Raw, s.Line = slices.Clone(s.Raw), slices.Clone(s.Line)
			skips = append(skips, s)
		}
		r.Reset(chunk, nil)
		for ok := true; ok; {
			_, ok = r.Next(nil)
		}
		if !reflect.DeepEqual(skips, want) {
			t.Errorf("skips\n got %v\nwant %v", skips, want)
		}
		if r.Stats() != wantStats {
			t.Errorf("counted %+v, want %+v", r.Stats(), wantStats)
		}
	}
}

func TestResetWithinAListBeginsAtTheStart(t *testing.T) {
	rawList := `{"kind":"EventList","items":[` + line("a") + `,` + line("b") + `]}`
	for name, list := range map[string]msg{
		"map":  rec(pairs{"kind", "EventList", "items", items{ev("a"), ev("b")}}),
		"line": rec(pairs{"log", rawList}),
	} {
		r := NewReader(&logKey)
		r.Reset(pack(7, list), nil)
		if out, _ := r.Next(nil); string(out) != line("a") {
			t.Fatalf("%s: read %s", name, out)
		}
		if want := (Stats{Events: 1, Records: 2, Skipped: [NumReasons]int{NotRecord: 1}}); r.Stats() != want {
			t.Errorf("%s: in the list counted %+v, want %+v", name, r.Stats(), want)
		}
		w := walk(t, r, pack(list, rec(ev("c"))), nil)
		if want := []string{line("a"), line("b"), line("c")}; !slices.Equal(w.events, want) || w.stats != (Stats{Events: 3, Records: 2}) {
			t.Errorf("%s: then\n got %q, %+v\nwant %q", name, w.events, w.stats, want)
		}
	}
}

func TestPanicCostsOneRecord(t *testing.T) {
	rawList := `{"kind":"EventList","items":[` + line("a") + `,` + line("b") + `,` + line("c") + `]}`
	chunk := pack(rec(ev("a")), rec(ev("b")), rec(ev("c")),
		rec(pairs{"kind", "EventList", "items", items{ev("a"), ev("b"), ev("c")}}),
		rec(pairs{"log", rawList}))
	r := NewReader(&logKey)
	var stacks []Skip
	n := 0
	r.beforeRecord = func(offset, item int) {
		// The second record, and the second item of each list.
		if item == 1 || item == -1 && offset == len(rec(ev("a"))) {
			n++
			panic(n)
		}
	}
	r.OnSkip = func(s Skip) { stacks = append(stacks, s) }
	r.Reset(chunk, nil)
	var got []string
	for {
		out, ok := r.Next(nil)
		if !ok {
			break
		}
		got = append(got, string(out))
	}
	a, c := line("a"), line("c")
	if want := []string{a, c, a, c, a, c}; !slices.Equal(got, want) {
		t.Errorf("events\n got %q\nwant %q", got, want)
	}
	if len(stacks) != 3 || r.Stats().Skipped[Panicked] != 3 {
		t.Fatalf("%d panics reported, %d counted, want 3", len(stacks), r.Stats().Skipped[Panicked])
	}
	for i, s := range stacks {
		if s.Reason != Panicked || s.Panic != i+1 || !strings.Contains(string(s.Stack), "TestPanicCostsOneRecord") {
			t.Errorf("skip %d: %v, panic %v, stack %.40q", i, s.Reason, s.Panic, s.Stack)
		}
	}
	if string(stacks[0].Raw) != string(rec(ev("b"))) || string(stacks[1].Raw) != string(pack(ev("b"))) || string(stacks[2].Raw) != line("b") {
		t.Errorf("raw bytes %q, %q, %q", stacks[0].Raw, stacks[1].Raw, stacks[2].Raw)
	}
}

func TestPanicOfOnSkipIsTheCallersAndLosesNoRecord(t *testing.T) {
	r := NewReader(&logKey)
	r.Reset(pack(7, rec(ev("a"))), nil)
	r.OnSkip = func(Skip) { panic("caller") }
	func() {
		defer func() {
			if recover() != "caller" {
				t.Error("the panic did not reach the caller")
			}
		}()
		r.Next(nil)
	}()
	if out, ok := r.Next(nil); string(out) != line("a") || !ok {
		t.Errorf("then Next returned %q, %v", out, ok)
	}
}

func TestEveryReasonHasWords(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reason(NumReasons) {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d is %q", r, r)
		}
		seen[r.String()] = true
	}
	if got := Reason(200).String(); got != "unknown reason" {
		t.Errorf("got %q", got)
	}
}

func TestARawLineThatDoesNotFitIsLeftForTheNextCall(t *testing.T) {
	small, large := line("a"), line("b", `"x":"`+strings.Repeat("y", 1000)+`"`)
	r := NewReader(&logKey)
	r.Reset(pack(rec(pairs{"log", small}), rec(pairs{"log", large}), rec(pairs{"log", small})), nil)
	dst := make([]byte, 0, len(small)+len(large)-1)
	dst, ok, full := r.NextWithin(dst, false)
	if !ok || full || string(dst) != small {
		t.Fatalf("%v %v %q, want the first event", ok, full, dst)
	}
	at := r.offset
	for range 2 {
		if out, ok, full := r.NextWithin(dst, false); ok || !full || string(out) != small || r.offset != at {
			t.Fatalf("%v %v %d bytes at %v, want full and nothing else", ok, full, len(out), r.offset)
		}
	}
	if out, ok, full := r.NextWithin(dst[:0], false); !ok || full || string(out) != large {
		t.Fatalf("%v %v %d bytes, want the event, for which there is room now", ok, full, len(out))
	}
	if out, ok, full := r.NextWithin(make([]byte, 0, 10), true); !ok || full || string(out) != small {
		t.Fatalf("%v %v %q, want the last event, room or not", ok, full, out)
	}
	if _, ok, full := r.NextWithin(nil, false); ok || full || r.Stats().Events != 3 {
		t.Fatalf("%v %v %+v, want the end after 3 events", ok, full, r.Stats())
	}
}
