// Tests of the comparison with the log.

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	e := func(id, more string) string {
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"` + id + `","stage":"S"` + more + `}`
	}
	bare := func(id, more string) string { return `{"auditID":"` + id + `","stage":"S"` + more + `}` }
	many := func(n int) (events []string) {
		for i := range n {
			events = append(events, e(fmt.Sprintf("%02d", i), ""))
		}
		return events
	}
	for _, tt := range []struct {
		name  string
		how   comparison
		lines []string
		items []string
		want  string // after "events in N, events out N, batches 0, "
	}{
		{"all there, another order", comparison{}, []string{e("a", ""), e("b", "")}, []string{e("b", ""), e("a", "")},
			"lost 0, duplicated 0, altered 0"},
		{"lost", comparison{}, []string{e("a", ""), e("b", "")}, []string{e("a", "")},
			"lost 1, duplicated 0, altered 0\nlost: \"b\" S (LOG:2)"},
		{"duplicated", comparison{}, []string{e("a", "")}, []string{e("a", ""), e("a", ""), e("a", "")},
			"lost 0, duplicated 2, altered 0\nduplicated: \"a\" S (LOG:1)\nduplicated: \"a\" S (LOG:1)"},
		{"altered", comparison{}, []string{e("a", `,"n":1`)}, []string{e("a", `,"n":2`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"altered and that twice", comparison{}, []string{e("a", `,"n":1`)}, []string{e("a", `,"n":2`), e("a", `,"n":2`)},
			"lost 0, duplicated 1, altered 1\nduplicated: \"a\" S\naltered: \"a\" S (LOG:1)"},
		{"made up", comparison{}, []string{e("a", "")}, []string{e("a", ""), e("x", "")},
			"lost 0, duplicated 0, altered 1\nnot in the log: \"x\" S"},
		{"twice in the log", comparison{}, []string{e("a", ""), e("a", "")}, []string{e("a", ""), e("a", "")},
			"lost 0, duplicated 0, altered 0"},
		{"twice in the log, once received", comparison{}, []string{e("a", ""), e("a", "")}, []string{e("a", "")},
			"lost 1, duplicated 0, altered 0\nlost: \"a\" S (LOG:1)"},
		{"one auditID, two events", comparison{}, []string{e("a", `,"n":1`), e("a", `,"n":2`)}, []string{e("a", `,"n":2`), e("a", `,"n":2`)},
			"lost 1, duplicated 1, altered 0\nlost: \"a\" S (LOG:1)\nduplicated: \"a\" S (LOG:2)"},
		{"one auditID, both altered alike", comparison{}, []string{e("a", `,"n":1`), e("a", `,"n":2`)}, []string{e("a", `,"n":3`), e("a", `,"n":3`)},
			"lost 0, duplicated 0, altered 2\naltered: \"a\" S (LOG:1)\naltered: \"a\" S (LOG:2)"},
		{"outer white space", comparison{}, []string{" " + e("a", "") + "\r"}, []string{e("a", "")},
			"lost 0, duplicated 0, altered 0"},
		{"bytes differ", comparison{}, []string{e("a", `,"n":1.0`)}, []string{e("a", `,"n":1`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"kind is missing", comparison{}, []string{e("a", "")}, []string{bare("a", "")},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"a line that is no event", comparison{}, []string{`{"cut`}, nil,
			"lost 1, duplicated 0, altered 0\nlost: (no auditID) (LOG:1)"},
		{"ten names at most", comparison{}, many(12), nil,
			"lost 12, duplicated 0, altered 0\n" + func() (s string) {
				for i := range 10 {
					s += fmt.Sprintf("lost: \"%02d\" S (LOG:%d)\n", i, i+1)
				}
				return strings.TrimSpace(s)
			}()},

		{"semantic: spelling", comparison{semantic: true},
			[]string{e("a", `,"n":100.0,"o":{"x":1e-7,"y":[]},"s":"\u00e9\/"`)},
			[]string{`{"stage":"S", "s":"é/","o":{"y":[ ],"x":0.0000001},"n":1E2,"auditID":"a"}`},
			"lost 0, duplicated 0, altered 0"},
		{"semantic: last digit", comparison{semantic: true}, []string{e("a", `,"n":9007199254740993`)}, []string{e("a", `,"n":9007199254740992`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"semantic: [] is not {}", comparison{semantic: true}, []string{e("a", `,"n":[]`)}, []string{e("a", `,"n":{}`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"semantic: null is not absent", comparison{semantic: true}, []string{e("a", `,"n":null`)}, []string{e("a", "")},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"semantic: \"1\" is not 1", comparison{semantic: true}, []string{e("a", `,"n":1`)}, []string{e("a", `,"n":"1"`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"semantic: another kind", comparison{semantic: true}, []string{e("a", "")}, []string{`{"kind":"X","auditID":"a","stage":"S"}`},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
		{"semantic: kind inside an object", comparison{semantic: true}, []string{e("a", `,"o":{"kind":"Event"}`)}, []string{e("a", `,"o":{}`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},

		{"absent, as it must", comparison{semantic: true, absent: []string{"stageTimestamp"}},
			[]string{e("a", `,"stageTimestamp":"T"`)}, []string{e("a", "")},
			"lost 0, duplicated 0, altered 0"},
		{"absent, but there", comparison{semantic: true, absent: []string{"stageTimestamp"}},
			[]string{e("a", `,"stageTimestamp":"T"`)}, []string{e("a", `,"stageTimestamp":"T"`)},
			"lost 0, duplicated 0, altered 1\naltered: \"a\" S (LOG:1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := logFile(t, tt.lines...)
			y := newTally(tt.how)
			for _, i := range tt.items {
				y.count(newEvent([]byte(i)))
			}
			v, err := y.verify([]string{log})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			v.report(&out)
			want(t, "verdict", strings.ReplaceAll(out.String(), log, "LOG"),
				fmt.Sprintf("verdict: events in %d, events out %d, batches 0, %s\n", len(tt.lines), len(tt.items), tt.want))
		})
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ number, want string }{
		{"0", "0"}, {"-0", "0"}, {"0.00", "0"}, {"0e99999999999999999999", "0"},
		{"1", "1e0"}, {"1.0", "1e0"}, {"10", "1e1"}, {"100.0", "1e2"}, {"1e2", "1e2"}, {"1E+2", "1e2"},
		{"-1.50", "-15e-1"}, {"0.1", "1e-1"}, {"1e-7", "1e-7"}, {"0.0000001", "1e-7"},
		{"18446744073709551615", "18446744073709551615e0"},
		{"1e99999999999999999999", "1e99999999999999999999"},
		{"10e99999999999999999999", "1e100000000000000000000"},
	} {
		if got := canonicalNumber(tt.number); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.number, got, tt.want)
		}
	}
}

func FuzzCanonicalNumber(f *testing.F) {
	for _, s := range []string{"0", "-12.50e3", "1E+2", "9007199254740993"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, n string) {
		event := []byte(`{"n":` + n + `}`)
		one, ok := canonicalEvent(event, nil)
		if !ok || strings.ContainsAny(n, `"[{ntf`) {
			return
		}
		// A canonical number is its own canonical form.
		number := strings.TrimSuffix(strings.TrimPrefix(string(one), `{"n":`), ",}")
		if strings.Contains(number, ",") {
			return
		}
		if again := canonicalNumber(number); again != number {
			t.Errorf("%s: %s, then %s", n, number, again)
		}
	})
}

// Real events, in another order.
func TestRealLog(t *testing.T) {
	const name = "testdata/audit.log.gz"
	var events []event
	if err := readLines(name, func(_ int, e event) { events = append(events, e) }); err != nil {
		t.Fatal(err)
	}
	for _, how := range []comparison{{}, {semantic: true}} {
		y := newTally(how)
		slices.Reverse(events)
		for _, e := range events {
			y.count(e)
		}
		v, err := y.verify([]string{name})
		if err != nil || v.in != len(events) || v.lost+v.duplicated+v.altered != 0 {
			t.Errorf("%+v: %+v, %v", how, v, err)
		}
	}
}
