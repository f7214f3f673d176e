// Tests of when events are let through.

package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestRateIsExact(t *testing.T) {
	for _, rate := range []int{1, 3, 7, 99, 100, 101, 1000, 33_333, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			begin, p, taken := time.Now(), newPacer(rate), 0
			for taken < 100*rate {
				n := p.wait(t.Context())
				taken += n
				passed := time.Since(begin)
				// What is due and no more, a tick and a group late at most.
				due := float64(rate) * passed.Seconds()
				late := float64(rate)*tick.Seconds() + group
				if n < 1 || n > group || float64(taken) > due+1e-6 || float64(taken) < due-late {
					t.Fatalf("rate %d: %d events after %v, this time %d", rate, taken, passed, n)
				}
			}
			if taken, passed := taken, time.Since(begin); taken != 100*rate || passed != 100*time.Second {
				t.Errorf("rate %d: %d events after %v", rate, taken, passed)
			}
		})
	}
}

func TestAtALowRateEachEventComesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, p := time.Now(), newPacer(3)
		for _, want := range []time.Duration{340 * time.Millisecond, 670 * time.Millisecond, time.Second, 1340 * time.Millisecond} {
			if n := p.wait(t.Context()); n != 1 || time.Since(begin) != want {
				t.Errorf("%d events after %v, want 1 after %v", n, time.Since(begin), want)
			}
		}
	})
}

func TestAStallIsMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, p := time.Now(), newPacer(500)
		time.Sleep(7 * time.Second) // the writer is held up
		for range 3500 / group {
			if n := p.wait(t.Context()); n != group || time.Since(begin) != 7*time.Second {
				t.Errorf("%d events after %v", n, time.Since(begin))
			}
		}
		if n := p.wait(t.Context()); n != 5 {
			t.Errorf("%d events in the tick behind the stall", n)
		}
		if passed := time.Since(begin); passed != 7010*time.Millisecond {
			t.Errorf("caught up after %v", passed)
		}
	})
}

func TestRateZeroDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, p := time.Now(), newPacer(0)
		for range 10_000 {
			if n := p.wait(t.Context()); n != group {
				t.Fatalf("%d events", n)
			}
		}
		if passed := time.Since(begin); passed != 0 {
			t.Errorf("waited for %v", passed)
		}
	})
}

func TestAStopEndsTheWaitAtOnce(t *testing.T) {
	for _, rate := range []int{0, 1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			stop := 2500*time.Millisecond + time.Microsecond
			ctx, cancel := context.WithTimeout(t.Context(), stop)
			defer cancel()
			begin, p := time.Now(), newPacer(rate)
			if rate == 0 {
				time.Sleep(stop)
				synctest.Wait()
			}
			taken := 0
			for n := p.wait(ctx); n > 0; n = p.wait(ctx) {
				taken += n
			}
			if want := rate * 5 / 2; taken != want || time.Since(begin) != stop {
				t.Errorf("rate %d: %d events after %v, want %d after %v", rate, taken, time.Since(begin), want, stop)
			}
		})
	}
}

func TestOffsetIsNeverEarly(t *testing.T) {
	for _, tt := range []struct {
		n, rate int
		want    time.Duration
	}{
		{0, 3, 0}, {1, 3, 333_333_334}, {2, 3, 666_666_667}, {3, 3, time.Second}, {7, 2, 3500 * time.Millisecond},
		{1, maxRate, 1}, {86_400_000_000_001, maxRate, 24*time.Hour + 1},
	} {
		if got := offset(tt.n, tt.rate); got != tt.want {
			t.Errorf("event %d at rate %d: %d, want %d", tt.n, tt.rate, got, tt.want)
		}
	}
}
