package ledger

import (
	"encoding/binary"
	"testing"
)

// BenchmarkAnEvent is what an event costs at a full window: its identity, its look-up
// when it is new, and that it is done, in the runs that a body holds.
func BenchmarkAnEvent(b *testing.B) {
	const run, window = 1600, 1_000_000
	for _, dir := range []string{"", "State_Dir"} {
		name := "in memory"
		if dir != "" {
			name, dir = dir, b.TempDir()
		}
		b.Run(name, func(b *testing.B) {
			l, err := Open(Options{Dir: dir, Name: "test", Window: window, Warn: func(string, ...any) {}})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			for n := 0; n < window; n += 10_000 {
				deliver(l, n, n+10_000)
			}
			event := make([]byte, 650)
			of, states := make([]ID, run), make([]State, run)
			n := uint64(0)
			b.ResetTimer()
			b.SetBytes(run * 650)
			for range b.N {
				l.began = l.began.Add(-minAge)
				for i := range of {
					n++
					binary.BigEndian.PutUint64(event[100:], n)
					of[i] = l.Identify(event)
				}
				l.Reserve(of, states)
				l.Done(of)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*run), "ns/event")
		})
	}
}

func BenchmarkIdentify(b *testing.B) {
	l, err := Open(Options{Window: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	event := make([]byte, 650)
	b.SetBytes(650)
	for range b.N {
		l.Identify(event)
	}
}

// BenchmarkSeenAgain is what an event costs that is done.
func BenchmarkSeenAgain(b *testing.B) {
	const run, window = 1600, 1_000_000
	l, err := Open(Options{Window: window})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var of []ID
	for n := 0; n < window; n += run {
		some := ids(l, n, n+run)
		deliver(l, n, n+run)
		of = append(of, some...)
	}
	states := make([]State, run)
	b.ResetTimer()
	for i := range b.N {
		from := i % (len(of) / run) * run
		l.Reserve(of[from:from+run], states)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*run), "ns/event")
}

// BenchmarkOpen is a start with a full journal.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	o := Options{Dir: dir, Name: "test", Window: 1_000_000}
	l, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; n < 500_000; n += 10_000 {
		deliver(l, n, n+10_000)
	}
	l.Close()
	for range b.N {
		l, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}
