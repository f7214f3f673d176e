package ledger

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// warnings are what a ledger has warned of.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) warn(text string, attrs ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text+" "+strings.TrimSpace(fmt.Sprintln(attrs...)))
}

// want asserts the warnings since the last call, by what each begins with.
func (w *warnings) want(t *testing.T, begins ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.EqualFunc(w.lines, begins, strings.HasPrefix) {
		t.Errorf("warned of %q, want %q", w.lines, begins)
	}
	w.lines = nil
}

func opened(t *testing.T, dir string, window int) (*Ledger, *warnings) {
	t.Helper()
	w := &warnings{}
	l, err := Open(Options{Dir: dir, Name: "test", Window: window, Warn: w.warn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, w
}

// ids are identities of events number from up to but not including to.
func ids(l *Ledger, from, to int) (all []ID) {
	for i := from; i < to; i++ {
		all = append(all, l.Identify(binary.BigEndian.AppendUint32(nil, uint32(i))))
	}
	return all
}

func reserve(l *Ledger, of []ID) []State {
	states := make([]State, len(of))
	l.Reserve(of, states)
	return states
}

// deliver has events reserved and done.
func deliver(l *Ledger, from, to int) {
	of := ids(l, from, to)
	reserve(l, of)
	l.Done(of)
}

// want asserts that all of these have one state. What is New is released again.
func want(t *testing.T, l *Ledger, from, to int, state State) {
	t.Helper()
	of := ids(l, from, to)
	counts := map[State]int{}
	for i, s := range reserve(l, of) {
		counts[s]++
		if s == New {
			l.Release(of[i : i+1])
		}
	}
	if counts[state] != to-from {
		t.Errorf("of events %d to %d new, in flight and done are %v, want all of state %d", from, to, counts, state)
	}
}

func TestAnEventIsNewOnceUntilItIsReleased(t *testing.T) {
	l, w := opened(t, "", 100)
	of := ids(l, 0, 3)
	for step, tt := range []struct {
		do   func()
		want []State
	}{
		{func() {}, []State{New, New, New}},
		{func() {}, []State{InFlight, InFlight, InFlight}},
		{func() { l.Done(of[:1]); l.Release(of[2:]) }, []State{Done, InFlight, New}},
		{func() { l.Release(of) }, []State{Done, New, New}},
		{func() { l.Done(of[1:]); l.Release(of) }, []State{Done, Done, Done}},
	} {
		tt.do()
		if got := reserve(l, of); !slices.Equal(got, tt.want) {
			t.Errorf("step %d: %v, want %v", step, got, tt.want)
		}
	}
	if done, inFlight := l.Count(); done != 3 || inFlight != 0 {
		t.Errorf("%d done and %d in flight", done, inFlight)
	}
	w.want(t)
}

func TestEqualEventsOfOneRunMeetEachOther(t *testing.T) {
	l, _ := opened(t, "", 100)
	a, b := ids(l, 0, 1)[0], ids(l, 1, 2)[0]
	if got := reserve(l, []ID{a, b, a, a, b}); !slices.Equal(got, []State{New, New, InFlight, InFlight, InFlight}) {
		t.Errorf("%v", got)
	}
	if l.AllDone([]ID{a, b}) {
		t.Error("both are done")
	}
	l.Done([]ID{a})
	if l.AllDone([]ID{a, b}) || !l.AllDone([]ID{a, a}) || !l.AllDone(nil) {
		t.Error("not only a is done")
	}
}

func TestIdentitiesDifferFromLedgerToLedger(t *testing.T) {
	a, _ := opened(t, "", 1)
	b, _ := opened(t, "", 1)
	text := []byte(`{"auditID":"x"}`)
	if a.Identify(text) != a.Identify(slices.Clone(text)) {
		t.Error("the same event has two identities")
	}
	if a.Identify(text) == b.Identify(text) {
		t.Error("the key is not random")
	}
}

func TestAGenerationTurnsWhenItHasHalfOfTheWindowAndIsAMinuteOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, t.TempDir(), 100)
		deliver(l, 0, 50) // enough, and too young
		time.Sleep(minAge - time.Nanosecond)
		deliver(l, 50, 51)
		time.Sleep(time.Nanosecond)
		deliver(l, 51, 52) // turns
		deliver(l, 52, 101)
		time.Sleep(minAge) // old, and too few: the 49 of this generation
		deliver(l, 101, 102-1)
		want(t, l, 0, 52, Done) // and moves to the younger one
		deliver(l, 101, 102)    // turns
		time.Sleep(minAge)
		deliver(l, 102, 152) // turns, and forgets what was not seen again
		want(t, l, 0, 52, New)
		want(t, l, 52, 102, New)
		want(t, l, 102, 152, Done)
		w.want(t)
	})
}

func TestWhatIsSeenAgainIsRememberedOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, dir, 100)
		deliver(l, 0, 1)
		for n := 1; n < 501; n += 50 {
			time.Sleep(minAge)
			deliver(l, n, n+50)
			want(t, l, 0, 1, Done)
		}
		l.Close()
		// Each time its old file was emptied, it was in the younger one.
		l, w2 := opened(t, dir, 100)
		want(t, l, 0, 1, Done)
		want(t, l, 1, 401, New)
		want(t, l, 451, 501, Done)
		w.want(t)
		w2.want(t)
	})
}

func TestTooSmallAWindowIsExceededForAMinuteAndThenWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, "", 10)
		deliver(l, 0, maxWindows*10-1)
		want(t, l, 0, maxWindows*10-1, Done)
		w.want(t)
		time.Sleep(20 * time.Second)
		deliver(l, maxWindows*10-1, maxWindows*10)
		w.want(t, "Duplicate_Window is too small for so many events: what comes again later than remembered_for is sent again; raise it remembered_for 20s events 80")
		want(t, l, 0, maxWindows*10, Done)
	})
}

func TestWhileItIsHeldAGenerationEndsOnlyForItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, "", 100)
		l.Hold(true)
		for n := 0; n < maxWindows*100-50; n += 50 {
			time.Sleep(minAge)
			deliver(l, n, n+50)
		}
		want(t, l, 0, maxWindows*100-50, Done)
		w.want(t)
		deliver(l, maxWindows*100-50, maxWindows*100)
		w.want(t, "Duplicate_Window is too small for so many events: what comes again later than remembered_for is sent again; raise it remembered_for 15m0s events 800")
		want(t, l, 0, maxWindows*100, Done)
		l.Hold(false)
		for n := 10_000; n < 10_100; n += 50 {
			time.Sleep(minAge)
			deliver(l, n, n+50)
		}
		w.want(t)
		want(t, l, 10_050, 10_100, Done)
	})
}

func TestWhatIsInFlightIsNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := opened(t, "", 2)
		reserve(l, ids(l, 0, 1))
		for i := range 10 {
			time.Sleep(minAge)
			deliver(l, 1+i, 2+i)
		}
		want(t, l, 0, 1, InFlight)
		l.Done(ids(l, 0, 1))
		want(t, l, 0, 1, Done)
	})
}

func TestTwoMillionOthersDoNotDisplaceAnEventWithinAMinute(t *testing.T) {
	if testing.Short() {
		t.Skip("two million events")
	}
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, "", 1_000_000)
		deliver(l, 0, 1000)
		for i := range 200 {
			time.Sleep(31 * time.Second / 200)
			deliver(l, 1000+i*10_000, 1000+(i+1)*10_000)
		}
		want(t, l, 0, 1000, Done)
		w.want(t)
	})
}

func TestTheTableIsSmall(t *testing.T) {
	l, _ := opened(t, "", 1_000_000)
	for n := 0; n < 1_000_000; n += 10_000 {
		deliver(l, n, n+10_000)
		if used, size := n+10_000, len(l.table.lines)*lineSize; used > 20_000 && size > 20*used {
			t.Fatalf("%d bytes for %d events", size, used)
		}
	}
	want(t, l, 0, 1_000_000, Done)
}

// TestLedgerAgainstAMap does anything in any order, and compares with a map.
func TestLedgerAgainstAMap(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { againstAMap(t, rand.New(rand.NewPCG(seed, 0)), dir) })
		})
	}
}

func againstAMap(t *testing.T, rnd *rand.Rand, dir string) {
	const events, window = 3000, 400
	l, w := opened(t, dir, window)
	model := map[int]State{}
	// Events are counted as they are done; of each, the count when it was done, and when
	// it was last seen.
	count, doneAt, seenAt := 0, map[int]int{}, map[int]int{}
	for range 2000 {
		n := rnd.IntN(events)
		run := make([]int, 1+rnd.IntN(100))
		var of []ID
		for i := range run {
			run[i] = (n + i*i) % events
			of = append(of, ids(l, run[i], run[i]+1)...)
		}
		switch rnd.IntN(4) {
		case 0, 1:
			for i, s := range reserve(l, of) {
				was := model[run[i]]
				if s == New && was == Done && count-seenAt[run[i]] >= window/2 {
					was = New // forgotten, as it may be
				}
				if s != was {
					t.Fatalf("event %d is %d, want %d", run[i], s, was)
				}
				switch s {
				case New:
					model[run[i]] = InFlight
				case Done:
					seenAt[run[i]] = count
				}
			}
		case 2:
			var done []ID
			for i, e := range run {
				if model[e] == InFlight {
					done = append(done, of[i])
					model[e] = Done
					count++
					doneAt[e], seenAt[e] = count, count
				}
			}
			l.Done(done)
		case 3:
			l.Release(of[:1])
			if model[run[0]] == InFlight {
				model[run[0]] = New
			}
		}
		if rnd.IntN(10) == 0 {
			time.Sleep(time.Duration(rnd.IntN(120)) * time.Second)
		}
		if rnd.IntN(50) == 0 { // the process is killed
			l.Close()
			l, _ = opened(t, dir, window)
			for e, s := range model {
				if s == InFlight {
					model[e] = New
				}
				seenAt[e] = doneAt[e] // that it was seen again may not be on the disk yet
			}
		}
	}
	want := 0
	for _, s := range model {
		if s == InFlight {
			want++
		}
	}
	if _, inFlight := l.Count(); inFlight != want {
		t.Errorf("%d in flight, want %d", inFlight, want)
	}
	for _, line := range w.lines {
		if !strings.HasPrefix(line, "Duplicate_Window is too small") {
			t.Error(line)
		}
	}
}

func TestManyGoroutinesAtOnce(t *testing.T) {
	l, w := opened(t, t.TempDir(), 20_000)
	const events = 20_000
	var news sync.Map
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 0))
			for range 200 {
				from := rnd.IntN(events - 100)
				of := ids(l, from, from+100)
				var mine []ID
				for i, s := range reserve(l, of) {
					if s == New {
						if _, twice := news.LoadOrStore(from+i, g); twice {
							t.Errorf("event %d is new to two at once", from+i)
						}
						mine = append(mine, of[i])
					}
				}
				l.AllDone(of)
				l.Count()
				l.Done(mine)
			}
		})
	}
	all.Wait()
	w.want(t)
}

func TestAfterCloseNothingIsNew(t *testing.T) {
	l, w := opened(t, t.TempDir(), 10)
	of := ids(l, 0, 3)
	reserve(l, of[:1])
	l.Close()
	l.Close()
	l.Done(of)
	l.Release(of)
	if got := reserve(l, of); !slices.Equal(got, []State{InFlight, InFlight, InFlight}) || l.AllDone(of) {
		t.Errorf("%v", got)
	}
	w.want(t)
}
