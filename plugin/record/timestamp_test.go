package record

import (
	"strings"
	"testing"
	"time"
)

const (
	// base is 2026-01-02T03:04:05Z.
	base    = 1767323045
	request = "2026-01-02T03:04:05.100000Z"
)

var restoring = Options{LogKey: "log", RestoreTimestamp: true}

// half is an event without stageTimestamp.
func half(request any) pairs { return ev("a", "requestReceivedTimestamp", request) }

// restored walks one chunk and returns the stageTimestamp of each event, "" for
// none, and the counts.
func restored(t *testing.T, times *Times, chunk []byte) (got []string, s Stats) {
	t.Helper()
	w := walk(t, NewReader(&restoring), chunk, times)
	for _, e := range w.events {
		_, v, _ := strings.Cut(e, `,"stageTimestamp":"`)
		got = append(got, strings.TrimSuffix(v, `"}`))
	}
	return got, w.stats
}

func TestMissingTimestampComesBackFromTheRecordsTime(t *testing.T) {
	tests := []struct {
		name    string
		time    any
		request any
		want    string
	}{
		{"exact", at(base, 123456000), request, "2026-01-02T03:04:05.123456Z"},
		{"one nanosecond short", at(base, 123455999), request, "2026-01-02T03:04:05.123456Z"},
		{"rounds up to the next second", at(base, 999999999), request, "2026-01-02T03:04:06.000000Z"},
		{"same instant", at(base, 100000000), request, "2026-01-02T03:04:05.100000Z"},
		{"whole second among fractions", at(base+1, 0), request, "2026-01-02T03:04:06.000000Z"},
		{"an hour later", at(base+3600, 100000000), request, "2026-01-02T04:04:05.100000Z"},
		{"ext8", extern{0, string(at(base, 123456000)[2:])}, request, "2026-01-02T03:04:05.123456Z"},
		{"the other in another zone", at(base, 123456000), "2026-01-02T04:04:05.1+01:00", "2026-01-02T03:04:05.123456Z"},
		{"the other at the end of a month", at(base+29*86400, 123456000), "2026-01-31T03:04:05.123456Z", "2026-01-31T03:04:05.123456Z"},
		{"more than an hour later", at(base+3600, 100001000), request, ""},
		{"before the other", at(base, 99999000), request, ""},
		{"the epoch", at(0, 0), request, ""},
		{"nanoseconds of a clock", at(base, 123456500), request, ""},
		{"impossible nanoseconds", at(base, 1e9), request, ""},
		{"integer", base, request, ""},
		{"double", base + 0.5, request, ""},
		{"nil", nil, request, ""},
		{"other ext", extern{1, "12345678"}, request, ""},
		{"the other unreadable", at(base, 123456000), "yesterday", ""},
		{"the other on a day that is not", at(base, 123456000), "2026-02-30T03:04:05.100000Z", ""},
		{"the other not text", at(base, 123456000), 5, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			times := new(Times)
			times.note(seenFraction)
			got, s := restored(t, times, pack(recAt(test.time, half(test.request))))
			if got[0] != test.want {
				t.Errorf("stageTimestamp %q, want %q", got[0], test.want)
			}
			if put := test.want != ""; (s.TimestampsRestored == 1) != put || (s.TimestampsLeftOut == 1) == put {
				t.Errorf("restored %d, left out %d", s.TimestampsRestored, s.TimestampsLeftOut)
			}
		})
	}
}

func TestMissingRequestTimestampComesBack(t *testing.T) {
	e := ev("a", "stageTimestamp", request)
	chunk := pack(recAt(at(base, 99999000), e), recAt(at(base, 100001000), e))
	w := walk(t, NewReader(&restoring), chunk, nil)
	if got, want := w.events[0], line("a", `"stageTimestamp":"`+request+`"`, `"requestReceivedTimestamp":"2026-01-02T03:04:05.099999Z"`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := w.events[1], line("a", `"stageTimestamp":"`+request+`"`); got != want {
		t.Errorf("received after its stage: got %s, want %s", got, want)
	}
}

func TestTimestampIsNotRestoredFromTimesWithoutFraction(t *testing.T) {
	whole := pack(recAt(at(base+1, 0), half(request)), recAt(at(base+2, 0), half(request)))
	times := new(Times)
	if got, s := restored(t, times, whole); got[0]+got[1] != "" || s.TimestampsLeftOut != 2 {
		t.Errorf("got %q, left out %d", got, s.TimestampsLeftOut)
	}
	// A later record of the chunk shows that this tag's times have fractions.
	mixed := pack(msg(whole), rec(pairs{"log", "x"}), recAt(at(base, 500000000), half(request)))
	if got, s := restored(t, times, mixed); got[0] != "2026-01-02T03:04:06.000000Z" || s.TimestampsRestored != 3 {
		t.Errorf("got %q, restored %d", got, s.TimestampsRestored)
	}
	// And so it stays for the chunks after it.
	if _, s := restored(t, times, whole); s.TimestampsRestored != 2 {
		t.Errorf("next chunk: restored %d, want 2", s.TimestampsRestored)
	}
}

func TestTimestampIsNotRestoredFromTheClock(t *testing.T) {
	// A reader's clock hits a whole microsecond now and then.
	chunk := pack(recAt(at(base, 123456000), half(request)), recAt(at(base, 123456789), half(request)), recAt(at(base, 123457000), half(request)))
	times := new(Times)
	for range 2 {
		if got, s := restored(t, times, chunk); s.TimestampsRestored != 0 || s.TimestampsLeftOut != 3 {
			t.Errorf("got %q, restored %d, left out %d", got, s.TimestampsRestored, s.TimestampsLeftOut)
		}
	}
}

func TestTimestampIsNotRestoredOnceATagsTimesTurnToTheClock(t *testing.T) {
	times := new(Times)
	good := pack(recAt(at(base, 123456000), half(request)))
	if _, s := restored(t, times, good); s.TimestampsRestored != 1 {
		t.Fatalf("restored %d, want 1", s.TimestampsRestored)
	}
	restored(t, times, pack(recAt(at(base, 123456789), half(request))))
	if got, s := restored(t, times, good); s.TimestampsRestored != 0 || s.TimestampsLeftOut != 1 {
		t.Errorf("got %q, restored %d, left out %d", got, s.TimestampsRestored, s.TimestampsLeftOut)
	}
}

func TestTimesLearnOnlyFromEventsThatLackATimestamp(t *testing.T) {
	fraction := at(base, 500000000)
	chunk := pack(recAt(at(base+1, 0), half(request)),
		recAt(fraction, pairs{"log", line("a")}), recAt(fraction, pairs{"x", 1}), recAt(fraction, ev("a")),
		recAt(fraction, ev("a", "requestReceivedTimestamp", request, "stageTimestamp", request)),
		recAt(fraction, pairs{"log", half(request)}))
	got, s := restored(t, new(Times), chunk)
	if strings.Join(got, "") != request || s.TimestampsRestored != 0 || s.TimestampsLeftOut != 1 {
		t.Errorf("got %q, restored %d, left out %d", got, s.TimestampsRestored, s.TimestampsLeftOut)
	}
}

func TestRestoreTimestampOffChangesNothing(t *testing.T) {
	chunk := pack(recAt(at(base, 123456000), half(request)))
	w := expect(t, chunk, []string{line("a", `"requestReceivedTimestamp":"`+request+`"`)})
	if w.stats.TimestampsLeftOut != 0 {
		t.Errorf("left out %d", w.stats.TimestampsLeftOut)
	}
}

func TestParseMicrosAgreesWithTheTimePackage(t *testing.T) {
	d := new(day)
	for _, s := range []string{
		request, request, "2026-01-02T23:59:59.999999Z", "2026-01-02T24:00:00.000000Z", "2026-01-02T00:00:60.000000Z", "2026-01-02T00:60:00.000000Z",
		"2026-01-02T0a:00:00.000000Z", "2026-01-02T00:00:00.00000:Z", "2026-01-02T00:00:00.000000z", "2026-01-02T00.00:00.000000Z", "2026-01-02T00:00:00.\xb000000Z", "2026-01-02T/0:00:00.000000Z", "2024-02-29T23:59:59.999999Z", "2023-02-29T00:00:00.000000Z", "2026-13-01T00:00:00.000000Z", "2026-00-01T00:00:00.000000Z",
		"2026-01-00T00:00:00.000000Z", "2026-12-31T24:00:00.000000Z", "2026-12-31T23:60:00.000000Z", "2026-12-31T23:59:60.000000Z",
		"0001-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z",
		"2026-01-02T03:04:05.123+02:00", "2026-01-02t03:04:05.100000z", "2026-01-02 03:04:05.100000Z", "2026-01-02T03:04:05,100000Z", "", "2026-01-02T03:04:05.10000/Z",
	} {
		want, err := time.Parse(time.RFC3339, s)
		us, ok := d.parseMicros([]byte(s))
		if ok != (err == nil) || ok && us != want.UnixMicro() {
			t.Errorf("%q: %d, %v; time.Parse says %v, %v", s, us, ok, want, err)
		}
	}
}

func TestAppendTimestampAgreesWithTheTimePackage(t *testing.T) {
	d := new(day)
	for _, us := range []int64{
		0, 1, dayLength - 1, dayLength, base*1e6 + 123456, base * 1e6, base*1e6 - 1, (1<<32 - 3) * 1e6, 951782399999999, 951782400000000,
	} {
		want := `{,"k":"` + time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z") + `"`
		if got := string(d.appendTimestamp([]byte("{"), "k", us)); got != want {
			t.Errorf("%d: %s, want %s", us, got, want)
		}
	}
}
