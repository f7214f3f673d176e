// Cutting batches, the bounds of the buffer, and waiting for room.

package batch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchesAreCutByCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, _ := started(t, testConfig(), r) // MaxSize 4
		for i := range 9 {
			process(t, b, event(i))
		}
		synctest.Wait()
		if got := r.sizes(); !slices.Equal(got, []int{4, 4}) {
			t.Errorf("before MaxWait: batches of %v, want [4 4]", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.sizes(); !slices.Equal(got, []int{4, 4, 1}) {
			t.Errorf("after MaxWait: batches of %v, want [4 4 1]", got)
		}
		b.Shutdown(time.Second, false)
		wantGot(t, r, eventRange(0, 9))
		checkAccount(t, b, r)
	})
}

func TestBatchesAreCutByBytesOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxSize, cfg.MaxConcurrentRequests = 1000, 1
		cfg.MaxBytes = eventsOf(eventRange(0, 3)...).Size()
		r := &receiver{}
		b, _ := started(t, cfg, r)
		for i := range 7 {
			process(t, b, event(i))
		}
		b.Shutdown(time.Second, false)
		if got := r.sizes(); !slices.Equal(got, []int{3, 3, 1}) {
			t.Errorf("batches of %v, want [3 3 1]", got)
		}
		for _, req := range r.requests {
			if len(req.body) > cfg.MaxBytes {
				t.Errorf("a body of %d bytes, over the %d of MaxBytes", len(req.body), cfg.MaxBytes)
			}
		}
		checkAccount(t, b, r)
	})
}

func TestARunOverTheBoundsIsCutIntoBatchesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxConcurrentRequests = 1
		cfg.MaxBytes = eventsOf(eventRange(0, 3)...).Size()
		r := &receiver{}
		b, _ := started(t, cfg, r)
		deliver(t, b, eventRange(0, 8)...)
		b.Shutdown(time.Second, false)
		if got := r.sizes(); !slices.Equal(got, []int{3, 3, 2}) {
			t.Errorf("batches of %v, want [3 3 2]", got)
		}
		if got := r.got(); !slices.Equal(got, eventRange(0, 8)) {
			t.Errorf("order %v", got)
		}
		checkAccount(t, b, r)
	})
}

func TestAnEventOverMaxBytesGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, _ := started(t, testConfig(), r)
		large := `{"auditID":"large","x":"` + strings.Repeat("x", 5000) + `"}`
		process(t, b, event(1))
		process(t, b, large)
		process(t, b, event(2))
		b.Shutdown(time.Second, false)
		if got := r.sizes(); !slices.Equal(got, []int{1, 1, 1}) {
			t.Errorf("batches of %v, want [1 1 1]", got)
		}
		wantGot(t, r, []string{event(1), event(2), large})
		checkAccount(t, b, r)
	})
}

func TestAsynchronousEventsWaitForCompanyExactlyMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, _ := started(t, testConfig(), r)
		start := time.Now()
		process(t, b, event(1))
		time.Sleep(600 * time.Millisecond)
		process(t, b, event(2))
		time.Sleep(2 * time.Second)
		if got := r.since(start); !slices.Equal(got, []time.Duration{time.Second}) {
			t.Errorf("requests after %v, want one after 1s: MaxWait counts from the first event", got)
		}
		b.Shutdown(time.Second, false)
		wantGot(t, r, eventRange(1, 3))
		checkAccount(t, b, r)
	})
}

func TestDeliveredEventsDoNotWaitForCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxConcurrentRequests = 1
		r := &receiver{}
		b, _ := started(t, cfg, r)
		start := time.Now()
		process(t, b, event(1))
		d := deliver(t, b, event(2))
		<-d.Done()
		if got := r.since(start); !slices.Equal(got, []time.Duration{0}) {
			t.Errorf("requests after %v, want one at once", got)
		}
		if got := r.got(); !slices.Equal(got, eventRange(1, 3)) {
			t.Errorf("order %v, want what was taken first to go first", got)
		}
		if got := d.Result(); got != (Result{Accepted: 1}) {
			t.Errorf("delivery %+v, want 1 accepted", got)
		}
		b.Shutdown(time.Second, false)
		checkAccount(t, b, r)
	})
}

func TestADeliverySettlesWhenItsLastEventIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, req request) error {
			time.Sleep(time.Duration(req.n) * time.Second)
			return nil
		}}
		b, _ := started(t, testConfig(), r)
		d := b.NewDelivery()
		start := time.Now()
		for i := range 3 {
			if err := d.Add(now(), fill(b, []string{event(i)})); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		if isDone(d.Done()) {
			t.Fatal("settled before End")
		}
		if d.Pending() != 0 {
			t.Errorf("%d pending, want 0", d.Pending())
		}
		d2 := b.NewDelivery()
		if err := d2.Add(now(), fill(b, []string{event(3)})); err != nil {
			t.Fatal(err)
		}
		d2.End()
		d2.End()
		<-d2.Done()
		if took := time.Since(start); took != 9*time.Second {
			t.Errorf("settled after %v, want 9s", took)
		}
		d.End()
		if !isDone(d.Done()) {
			t.Error("not settled by End with nothing pending")
		}
		b.Shutdown(time.Second, false)
		checkAccount(t, b, r)
	})
}

func TestAFullBufferRefusesAllOfARunOrNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*Config)
	}{
		{"events", func(c *Config) { c.BufferSize = 5 }},
		{"bytes", func(c *Config) {
			c.BufferBytes = eventsOf(eventRange(0, 5)...).Size() - bodyOverhead
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxConcurrentRequests = 2
				tt.set(&cfg)
				hold := make(chan struct{})
				r := &receiver{answer: func(context.Context, request) error { <-hold; return nil }}
				b, _ := started(t, cfg, r)
				deliver(t, b, eventRange(0, 2)...)
				ev := fill(b, eventRange(2, 6))
				if err := b.NewDelivery().Add(now(), ev); !errors.Is(err, ErrFull) {
					t.Fatalf("four more: %v, want ErrFull", err)
				}
				if s := b.Stats(); s.Taken != 2 {
					t.Errorf("taken %d after a refusal, want 2", s.Taken)
				}
				ev.truncate(3) // a refused run is still the caller's
				if err := b.NewDelivery().Add(now(), ev); err != nil {
					t.Fatalf("three more: %v", err)
				}
				if err := b.ProcessEvents(now(), fill(b, []string{event(9)})); !errors.Is(err, ErrFull) {
					t.Fatalf("one more: %v, want ErrFull", err)
				}
				close(hold)
				b.Shutdown(time.Second, false)
				wantGot(t, r, eventRange(0, 5))
				checkAccount(t, b, r)
			})
		})
	}
}

func TestIntakeWaitsForRoomUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.BufferSize, cfg.SlowAfter = 2, time.Hour
		r := &receiver{answer: func(context.Context, request) error {
			time.Sleep(3 * time.Second)
			return nil
		}}
		b, _ := started(t, cfg, r)
		deliver(t, b, eventRange(0, 2)...)
		start := time.Now()
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := b.NewDelivery().Add(short, fill(b, []string{event(7)})); !errors.Is(err, ErrFull) {
			t.Errorf("with 1s to wait: %v, want ErrFull", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited %v, want 1s", took)
		}
		long, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.NewDelivery().Add(long, fill(b, []string{event(2)})); err != nil {
			t.Errorf("with 10s to wait: %v", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("there was room after %v, want 3s", took)
		}
		b.Shutdown(10*time.Second, false)
		wantGot(t, r, eventRange(0, 3))
		checkAccount(t, b, r)
	})
}

func TestWhatIsLargerThanTheBufferIsTakenWhenItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.BufferBytes = 5000
		large := `{"auditID":"large","x":"` + strings.Repeat("x", 9000) + `"}`
		r := &receiver{answer: func(context.Context, request) error {
			time.Sleep(time.Second)
			return nil
		}}
		b, _ := started(t, cfg, r)
		deliver(t, b, event(1))
		if err := b.NewDelivery().Add(now(), fill(b, []string{large})); !errors.Is(err, ErrFull) {
			t.Errorf("beside another event: %v, want ErrFull", err)
		}
		if err := b.NewDelivery().Add(context.Background(), fill(b, []string{large})); err != nil {
			t.Errorf("waiting: %v", err)
		}
		b.Shutdown(10*time.Second, false)
		wantGot(t, r, []string{event(1), large})
		checkAccount(t, b, r)
	})
}

func TestAnEmptyRunIsNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, _ := started(t, testConfig(), r)
		process(t, b)
		d := deliver(t, b)
		if !isDone(d.Done()) {
			t.Error("a delivery without events is not settled")
		}
		b.Shutdown(time.Second, false)
		if len(r.requests) != 0 {
			t.Errorf("%d requests", len(r.requests))
		}
		checkAccount(t, b, r)
	})
}

func TestNoMoreRequestsAtOnceThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxConcurrentRequests = 3
		r := &receiver{answer: func(context.Context, request) error {
			time.Sleep(time.Second)
			return nil
		}}
		b, _ := started(t, cfg, r)
		start := time.Now()
		for i := 0; i < 120; i += 4 {
			deliver(t, b, eventRange(i, i+4)...)
		}
		b.Shutdown(time.Minute, false)
		if took := time.Since(start); took != 10*time.Second || r.most != 3 {
			t.Errorf("30 requests of 1s took %v, %d at once; want 10s, 3 at once", took, r.most)
		}
		wantGot(t, r, eventRange(0, 120))
		checkAccount(t, b, r)
	})
}

func TestThrottleBoundsTheRateAfterItsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.ThrottleEnable, cfg.ThrottleQPS, cfg.ThrottleBurst = true, 2, 3
		r := &receiver{}
		b, _ := started(t, cfg, r)
		start := time.Now()
		for i := 0; i < 24; i += 4 {
			deliver(t, b, eventRange(i, i+4)...)
		}
		b.Shutdown(time.Minute, false)
		want := []time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond}
		if got := r.since(start); !slices.Equal(got, want) {
			t.Errorf("requests after %v, want %v", got, want)
		}
		wantGot(t, r, eventRange(0, 24))
		checkAccount(t, b, r)
	})
}

func TestManySmallRunsThatWaitDoNotHoldLargeSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxBytes = 1 << 20
		hold := make(chan struct{})
		r := &receiver{answer: func(context.Context, request) error { <-hold; return nil }}
		b, _ := started(t, cfg, r)
		for i := range 100 {
			deliver(t, b, event(i))
		}
		b.mu.Lock()
		held := b.held - 4*b.pool.capacity // what is under way
		b.mu.Unlock()
		if held > 100*1024 {
			t.Errorf("96 small batches that wait hold %d bytes", held)
		}
		close(hold)
		b.Shutdown(time.Minute, false)
		wantGot(t, r, eventRange(0, 100))
		checkAccount(t, b, r)
	})
}
