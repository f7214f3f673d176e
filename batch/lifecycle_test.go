// The graceful end of kubernetes pull request 50577, and what must hold when
// Run and Shutdown come in another order.

package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventsAfterStopAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, stop := started(t, testConfig(), r)
		process(t, b, event(1))
		d := deliver(t, b, event(2))
		close(stop)
		synctest.Wait()
		if err := b.ProcessEvents(now(), fill(b, []string{event(3)})); !errors.Is(err, ErrStopped) {
			t.Errorf("ProcessEvents after stop: %v, want ErrStopped", err)
		}
		if err := b.NewDelivery().Add(now(), fill(b, []string{event(4)})); !errors.Is(err, ErrStopped) {
			t.Errorf("Add after stop: %v, want ErrStopped", err)
		}
		b.Shutdown(10*time.Second, false)
		wantGot(t, r, []string{event(1), event(2)})
		if !isDone(d.Done()) {
			t.Error("the delivery taken before stop is not settled")
		}
		checkAccount(t, b, r)
	})
}

func TestShutdownWaitsForLastPOST(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := &receiver{answer: func(ctx context.Context, req request) error {
			<-hold
			return ctx.Err()
		}}
		b, stop := started(t, testConfig(), r)
		deliver(t, b, event(1))
		close(stop)
		returned := make(chan struct{})
		go func() {
			b.Shutdown(10*time.Second, false)
			close(returned)
		}()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if isDone(returned) {
			t.Fatal("Shutdown returned while a POST was under way")
		}
		close(hold)
		synctest.Wait()
		if !isDone(returned) {
			t.Fatal("Shutdown did not return when the last POST had")
		}
		wantGot(t, r, []string{event(1)})
		checkAccount(t, b, r)
	})
}

func TestStopSendsWhatWaitsForCompanyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, stop := started(t, testConfig(), r)
		start := time.Now()
		process(t, b, event(1))
		close(stop)
		b.Shutdown(10*time.Second, false)
		if took := time.Since(start); took != 0 {
			t.Errorf("the drain took %v, want none of MaxWait", took)
		}
		wantGot(t, r, []string{event(1)})
		checkAccount(t, b, r)
	})
}

func TestShutdownGivesUpWhenTheDrainTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxConcurrentRequests = 1
		var told []string
		var mu sync.Mutex
		var acknowledged *Delivery
		cfg.Observer.GivenUp = func(ev *Events, owner *Delivery) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, itemsOf(ev)...)
			if (owner == acknowledged) != (ev.Event(0)[12] == '1') {
				t.Errorf("%s told as of %v", ev.Event(0), owner)
			}
		}
		r := &receiver{answer: func(ctx context.Context, req request) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		b, _ := started(t, cfg, r)
		d := deliver(t, b, `{"auditID":"1"}`, `{"auditID":"12"}`)
		acknowledged = d
		process(t, b, `{"auditID":"2"}`)
		start := time.Now()
		b.Shutdown(10*time.Second, false)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("Shutdown took %v, want exactly the drain time of 10s", took)
		}
		if got := d.Result(); got != (Result{GivenUp: 2}) {
			t.Errorf("delivery %+v, want 2 given up", got)
		}
		if len(told) != 3 {
			t.Errorf("the observer was told of %v", told)
		}
		if s := b.Stats(); s.GivenUp != 3 || s.Pending != 0 {
			t.Errorf("given up %d pending %d, want 3 and 0", s.GivenUp, s.Pending)
		}
		checkAccount(t, b, r)
	})
}

func TestARequestAcceptedAfterTheDrainTimeCountsAsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(ctx context.Context, req request) error {
			<-ctx.Done()
			time.Sleep(time.Second) // the answer was on its way
			return nil
		}}
		b, _ := started(t, testConfig(), r)
		d := deliver(t, b, event(1))
		start := time.Now()
		b.Shutdown(2*time.Second, false)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Shutdown took %v, want the 3s until the last request returned", took)
		}
		if got := d.Result(); got != (Result{Accepted: 1}) {
			t.Errorf("delivery %+v, want 1 accepted", got)
		}
		checkAccount(t, b, r)
	})
}

func TestShutdownSeveralTimesReturnsAtTheSamePoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(context.Context, request) error {
			time.Sleep(3 * time.Second)
			return nil
		}}
		b, _ := started(t, testConfig(), r)
		deliver(t, b, event(1))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				b.Shutdown(time.Duration(10-i)*time.Second, false)
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("call %d returned after %v, want 3s", i, took)
				}
			})
		}
		wg.Wait()
		b.Shutdown(time.Second, false)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("a call after the end took %v more", took-3*time.Second)
		}
		wantGot(t, r, []string{event(1)})
		checkAccount(t, b, r)
	})
}

func TestShutdownInsteadOfRunGivesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b := New(testConfig(), r)
		d := deliver(t, b, event(1))
		process(t, b, event(2))
		start := time.Now()
		b.Shutdown(10*time.Second, false)
		b.Shutdown(10*time.Second, false)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		if s := b.Stats(); s.GivenUp != 2 || s.Requests != 0 {
			t.Errorf("given up %d, requests %d, want 2 and 0", s.GivenUp, s.Requests)
		}
		if !isDone(d.Done()) {
			t.Error("the delivery is not settled")
		}
		if err := b.Run(make(chan struct{})); err == nil {
			t.Error("Run after Shutdown is no error")
		}
		checkAccount(t, b, r)
	})
}

func TestShutdownBeforeAnythingWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b, _ := started(t, testConfig(), r)
		start := time.Now()
		b.Shutdown(10*time.Second, false)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		checkAccount(t, b, r)
	})
}

func TestEventsTakenBeforeRunAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		b := New(testConfig(), r)
		d := deliver(t, b, event(1))
		synctest.Wait()
		if len(r.got()) != 0 {
			t.Fatal("sent before Run")
		}
		if err := b.Run(nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(nil); err == nil {
			t.Error("a second Run is no error")
		}
		<-d.Done()
		b.Shutdown(time.Second, false)
		wantGot(t, r, []string{event(1)})
		checkAccount(t, b, r)
	})
}

func TestASenderPanicCostsNothingButItsBatchsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		var failures []Failure
		var mu sync.Mutex
		cfg.Observer.Failed = func(f Failure) {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, f)
		}
		r := &receiver{answer: func(_ context.Context, req request) error {
			if req.n == 1 {
				panic("broken sender")
			}
			return nil
		}}
		b, _ := started(t, cfg, r)
		d1 := deliver(t, b, event(1))
		synctest.Wait()
		d2 := deliver(t, b, event(2))
		synctest.Wait()
		if !isDone(d2.Done()) {
			t.Error("the other delivery waits for the panicked one")
		}
		<-d1.Done()
		b.Shutdown(time.Second, false)
		wantGot(t, r, []string{event(1), event(2)})
		var p *PanicError
		if len(failures) != 1 || !errors.As(failures[0].Err, &p) || p.Value != "broken sender" || len(p.Stack) == 0 {
			t.Errorf("failures told: %+v, want one PanicError with its stack", failures)
		}
		checkAccount(t, b, r)
	})
}

func TestStopRacingWithIntakeLosesNothing(t *testing.T) {
	for range 200 {
		r := &receiver{}
		cfg := testConfig()
		cfg.MaxWait = time.Hour
		b, stop := started(t, cfg, r)
		var mu sync.Mutex
		var taken []string
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					e := event(g*1000 + i)
					var err error
					if g%2 == 0 {
						err = b.ProcessEvents(context.Background(), fill(b, []string{e}))
					} else {
						d := b.NewDelivery()
						err = d.Add(context.Background(), fill(b, []string{e}))
						d.End()
					}
					if errors.Is(err, ErrStopped) {
						return
					}
					mu.Lock()
					taken = append(taken, e)
					mu.Unlock()
				}
			})
		}
		close(stop)
		wg.Wait()
		b.Shutdown(time.Minute, false)
		wantGot(t, r, taken)
		checkAccount(t, b, r)
	}
}

func TestNoRequestIsBegunThatTheDrainTimeWouldCutOffWhenTheRestIsNotLost(t *testing.T) {
	for _, tt := range []struct {
		leave    bool
		requests int
		took     time.Duration
	}{
		{true, 2 * 2, 6 * time.Second},   // begun at 0 and 3 s; at 6 s only 4 s are left
		{false, 2 * 4, 10 * time.Second}, // those begun at 9 s are cut off
	} {
		t.Run(fmt.Sprintf("leave %v", tt.leave), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxConcurrentRequests = 2
				cut := 0
				var mu sync.Mutex
				r := &receiver{answer: func(ctx context.Context, _ request) error {
					select {
					case <-time.After(3 * time.Second):
						return nil
					case <-ctx.Done():
						mu.Lock()
						cut++
						mu.Unlock()
						return ctx.Err()
					}
				}}
				b, _ := started(t, cfg, r)
				var all []*Delivery
				deliver(t, b, event(1000)) // so that it is known how long one takes
				time.Sleep(3 * time.Second)
				for i := range 20 {
					all = append(all, deliver(t, b, eventRange(i*4, i*4+4)...))
				}
				start := time.Now()
				b.Shutdown(10*time.Second, tt.leave)
				if took := time.Since(start); took != tt.took {
					t.Errorf("the drain took %v, want %v", took, tt.took)
				}
				if n := len(r.all()) - 1; n != tt.requests || tt.leave != (cut == 0) {
					t.Errorf("%d requests, %d of them cut off; want %d", n, cut, tt.requests)
				}
				given := 0
				for _, d := range all {
					given += d.Result().GivenUp
				}
				if got := len(r.got()) - 1; got+given != 80 {
					t.Errorf("%d accepted and %d given up of 80", got, given)
				}
				checkAccount(t, b, r)
			})
		})
	}
}

func TestAcceptedIsToldBeforeTheEventsSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		cfg := testConfig()
		cfg.Observer.Accepted = func(ids []ID) {
			time.Sleep(time.Second) // the disk
			r.accepted(ids)
		}
		b, stop := started(t, cfg, r)
		r.watched = true
		start := time.Now()
		d := deliver(t, b, event(0), event(1))
		time.Sleep(time.Second - 1)
		if isDone(d.Done()) || b.Stats().Accepted != 0 {
			t.Error("the events settled before the observer was told")
		}
		close(stop)
		b.Shutdown(time.Minute, true)
		if took := time.Since(start); took != time.Second || !isDone(d.Done()) {
			t.Errorf("the end came after %v, want it as soon as the observer was told", took)
		}
		checkAccount(t, b, r)
	})
}

// A stop is the last occasion: what waits for a back-off is tried at once.
func TestAStopTriesAtOnceWhatWaitsForABackoff(t *testing.T) {
	for _, isKept := range []bool{false, true} {
		for _, err := range []error{errRefused, status(404), status(500), status(400), status(413), askedToWait(time.Hour)} {
			t.Run(fmt.Sprint(err, isKept), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, heal := down(err)
					b, stop := started(t, testConfig(), r)
					for i := range 8 {
						_ = b.NewDelivery().Add(now(), fill(b, []string{event(i)})) // not all, once it is down
						time.Sleep(time.Second)
					}
					taken := b.Stats().Taken
					for n := len(r.all()); len(r.all()) == n; { // just after a try
						time.Sleep(100 * time.Millisecond)
					}
					heal()
					start := time.Now()
					close(stop)
					b.Shutdown(10*time.Second, isKept)
					if took := time.Since(start); took > time.Second || b.Stats().Accepted != taken {
						t.Errorf("accepted %d of %d in %v", b.Stats().Accepted, taken, took)
					}
					checkAccount(t, b, r)
				})
			})
		}
	}
}
