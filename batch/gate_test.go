package batch

import (
	"testing"
	"time"
)

// failing has the gate see a failure of each of the batches, one a second.
func failing(g *gate, now time.Time, batches ...*pendingBatch) (time.Time, bool) {
	last := now
	for _, p := range batches {
		now = now.Add(time.Second)
		if g.failed(p, false, 1, last, now) {
			return now, true
		}
	}
	return now, false
}

func batches(ids ...uint64) (all []*pendingBatch) {
	for _, id := range ids {
		all = append(all, &pendingBatch{id: id})
	}
	return all
}

func TestOnePoisonBatchDoesNotCloseTheGate(t *testing.T) {
	g := newGate()
	p := &pendingBatch{id: 1}
	for range 1000 {
		if _, closes := failing(&g, time.Now(), p); closes {
			t.Fatal("closed")
		}
	}
}

func TestAFewFailuresOfSeveralBatchesCloseTheGateWhereNextToNothingFails(t *testing.T) {
	g := newGate()
	for range 500 {
		g.accepted(&pendingBatch{})
	}
	now, closes := failing(&g, time.Now(), batches(1, 2, 3)...)
	if closes {
		t.Fatal("closed after three")
	}
	if _, closes = failing(&g, now, batches(4, 5)...); !closes {
		t.Error("open after five")
	}
}

func TestPartsOfABatchAtFaultSayLittleOfTheWebhook(t *testing.T) {
	g := newGate()
	n := 0
	for closes := false; !closes; n++ {
		_, closes = failing(&g, time.Now(), &pendingBatch{id: uint64(n + 1), suspect: true})
		if n > 1000 {
			t.Fatal("never closed")
		}
	}
	if n < 20 {
		t.Errorf("closed after %d parts, each of which fails as often as not", n)
	}
	g = newGate()
	for i := range 1000 {
		p := &pendingBatch{id: uint64(i), suspect: true}
		p.failures = 1 // known to be at fault
		if _, closes := failing(&g, time.Now(), p); closes {
			t.Fatal("closed by suspects alone")
		}
	}
}

func TestAnAcceptanceOpensTheGateAndBeginsAgain(t *testing.T) {
	g := newGate()
	_, closes := failing(&g, time.Now(), batches(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)...)
	if !closes || g.state() != Down {
		t.Fatal("not closed")
	}
	if !g.accepted(&pendingBatch{}) || g.state() != Healthy {
		t.Error("not opened")
	}
	g.forgetFailures()
	if _, closes := failing(&g, time.Now(), batches(1, 2, 3)...); closes {
		t.Error("closed again by what was before")
	}
}

func TestProbesAfterARefusalGetSmallerWithoutWaitingLonger(t *testing.T) {
	g := gate{closed: true}
	var waits []int
	wait := func(n int) time.Duration { waits = append(waits, n); return time.Second }
	size := 800_000
	for range 4 {
		g.probeFailed(size, 100, causeRefusal, time.Now(), wait)
		if !g.takesSmaller() || g.probeSize != size/8 {
			t.Fatalf("after %d the next probe has %d bytes, smaller: %v", size, g.probeSize, g.takesSmaller())
		}
		size = g.probeSize
		g.probing = true
	}
	if waits[3] != waits[0] {
		t.Errorf("waits %v", waits)
	}
}

func TestEverySecondProbeRepeatsWhatMayHaveBeenStored(t *testing.T) {
	g := gate{closed: true}
	small := 0
	for range 20 {
		g.probeFailed(1000, 10, causeFailure, time.Now(), func(int) time.Duration { return time.Second })
		if g.takesSmaller() {
			small++
		}
		g.probing = true
	}
	if small != 10 {
		t.Errorf("%d of 20 probes are smaller, want 10", small)
	}
}

func TestWhoBeginsTwoOutagesRests(t *testing.T) {
	g := newGate()
	now := time.Now()
	p := &pendingBatch{id: 1}
	p.cause = causeFailure
	for outage := range 3 {
		failing(&g, now, append([]*pendingBatch{p}, batches(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)...)...)
		if !g.closed {
			t.Fatal("not closed")
		}
		now = g.closedAt.Add(10 * time.Second)
		g.accepted(&pendingBatch{})
		want := 30 * time.Second
		if outage == 0 {
			want = 0
		}
		if rest := g.rest(p, now); rest != want {
			t.Errorf("after outage %d it rests %v, want %v", outage+1, rest, want)
		}
		if rest := g.rest(&pendingBatch{id: 2}, now); rest != 0 {
			t.Errorf("another one rests %v", rest)
		}
		g.forgetFailures()
	}
}
