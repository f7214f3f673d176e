// Failures: back-off, health, probes.

package batch

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoffDoublesUpToItsBoundWithJitter(t *testing.T) {
	const initial, limit = time.Second, 30 * time.Second
	for failures, full := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 6: 30, 7: 30, 40: 30, 1000: 30} {
		full *= time.Second
		for range 1000 {
			if d := backoff(initial, limit, failures, errRefused); d > full || d < full*8/10 {
				t.Fatalf("after %d failures %v, want %v less up to a fifth", failures, d, full)
			}
		}
	}
}

func TestRetryAfterIsHonouredWithinMaxBackoff(t *testing.T) {
	for _, tt := range []struct {
		asked    time.Duration
		min, max time.Duration
	}{
		{5 * time.Second, 5 * time.Second, 5 * time.Second},
		{time.Hour, 30 * time.Second, 30 * time.Second},
		{0, 800 * time.Millisecond, time.Second},
		{-time.Second, 800 * time.Millisecond, time.Second},
		{time.Millisecond, 800 * time.Millisecond, time.Second},
	} {
		err := fmt.Errorf("wrapped: %w", askedToWait(tt.asked))
		if d := backoff(time.Second, 30*time.Second, 1, err); d < tt.min || d > tt.max {
			t.Errorf("Retry-After %v: %v, want %v to %v", tt.asked, d, tt.min, tt.max)
		}
	}
}

func TestCauseOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want cause
	}{
		{status(413), causeTooLarge},
		{status(400), causeRefusal}, {status(403), causeRefusal}, {status(406), causeRefusal}, {status(422), causeRefusal},
		{status(500), causeFailure}, {status(503), causeFailure}, {status(301), causeFailure},
		{status(401), causeWebhook}, {status(404), causeWebhook}, {status(407), causeWebhook},
		{status(408), causeWebhook}, {status(425), causeWebhook}, {status(429), causeWebhook},
		{fmt.Errorf("write: %w", syscall.ECONNRESET), causeFailure}, {syscall.EPIPE, causeFailure},
		{io.EOF, causeFailure}, {io.ErrUnexpectedEOF, causeFailure},
		{context.DeadlineExceeded, causeFailure},
		{syscall.ECONNREFUSED, causeWebhook}, {errRefused, causeWebhook},
	} {
		if got := causeOf(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
			t.Errorf("causeOf(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestAFailedBatchIsRetriedByteForByteWhileTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		r.answer = func(_ context.Context, req request) error {
			if strings.Contains(req.body, "0000") && req.n < 8 {
				return status(404)
			}
			return nil
		}
		b, _ := started(t, testConfig(), r)
		bad := deliver(t, b, eventRange(0, 3)...)
		synctest.Wait()
		for i := 3; i < 9; i++ {
			d := deliver(t, b, event(i))
			synctest.Wait()
			if !isDone(d.Done()) {
				t.Fatalf("event %d waits for the failed batch", i)
			}
		}
		<-bad.Done()
		all := r.all()
		first, last := all[0].body, all[len(all)-1].body
		if first != last {
			t.Errorf("the retry differs:\n%s\n%s", first, last)
		}
		b.Shutdown(time.Second, false)
		wantGot(t, r, eventRange(0, 9))
		checkAccount(t, b, r)
	})
}

func TestARequestThatIsOldMakesTheWebhookSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.BufferSize = 2
		r := &receiver{answer: func(context.Context, request) error {
			time.Sleep(10 * time.Second)
			return nil
		}}
		b, _ := started(t, cfg, r)
		start := time.Now()
		deliver(t, b, event(1))
		state, changed := b.Health()
		if state != Healthy {
			t.Errorf("at first %v", state)
		}
		<-changed
		if state, _ := b.Health(); state != Slow || time.Since(start) != 4*time.Second {
			t.Errorf("%v after %v, want slow after 4s", state, time.Since(start))
		}
		deliver(t, b, event(2)) // there is room: it is taken
		if err := b.NewDelivery().Add(context.Background(), fill(b, []string{event(3)})); err != ErrSlow {
			t.Errorf("without room: %v, want ErrSlow at once", err)
		}
		_, changed = b.Health()
		<-changed
		if state, _ := b.Health(); state != Healthy || time.Since(start) != 14*time.Second {
			t.Errorf("%v after %v, want healthy after 14s", state, time.Since(start))
		}
		b.Shutdown(time.Minute, false)
		wantGot(t, r, eventRange(1, 3))
		checkAccount(t, b, r)
	})
}

// down is a receiver that answers err, after a millisecond, until it is healed.
func down(err error) (r *receiver, heal func()) {
	var healed atomic.Bool
	r = &receiver{answer: func(context.Context, request) error {
		time.Sleep(time.Millisecond)
		if healed.Load() {
			return nil
		}
		return err
	}}
	return r, func() { healed.Store(true) }
}

func TestFailuresOfSeveralBatchesThatChanceDoesNotExplainCloseTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heal := down(errRefused)
		b, _ := started(t, testConfig(), r)
		deliver(t, b, event(1))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if state, _ := b.Health(); state != Healthy {
			t.Errorf("after failures of one batch %v", state)
		}
		deliver(t, b, event(2))
		_, changed := b.Health()
		<-changed
		if state, _ := b.Health(); state != Down {
			t.Errorf("after failures of two batches %v, want down", state)
		}
		// At first a quarter of the tries may fail: eleven in a row are one in four million.
		if n := len(r.all()); n != 11 {
			t.Errorf("down after %d failures, want 11", n)
		}
		if err := b.NewDelivery().Add(context.Background(), fill(b, []string{event(4)})); err != ErrDown {
			t.Errorf("while down, with batches to probe with: %v, want ErrDown", err)
		}
		heal()
		time.Sleep(time.Second + 2*time.Millisecond)
		synctest.Wait()
		if state, _ := b.Health(); state != Healthy {
			t.Errorf("after the probe %v", state)
		}
		wantGot(t, r, eventRange(1, 3))
		b.Shutdown(time.Second, false)
		checkAccount(t, b, r)
	})
}

func TestOnePoisonBatchDoesNotMakeTheWebhookDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, req request) error {
			if strings.Contains(req.body, event(0)) {
				return status(404)
			}
			return nil
		}}
		b, _ := started(t, testConfig(), r)
		deliver(t, b, event(0))
		for i := 1; i < 200; i++ {
			time.Sleep(time.Second)
			d := deliver(t, b, event(i))
			synctest.Wait()
			if state, _ := b.Health(); state != Healthy || !isDone(d.Done()) {
				t.Fatalf("event %d: settled %v, webhook %v", i, isDone(d.Done()), state)
			}
		}
		tries := 0
		for _, req := range r.all() {
			if req.items[0] == event(0) {
				tries++
			}
		}
		// 1+2+4+8+16 s, then every 30 s, each less up to a fifth.
		if tries < 11 || tries > 14 {
			t.Errorf("the poison batch was tried %d times in 199 s", tries)
		}
		b.Shutdown(time.Second, false)
		wantGot(t, r, eventRange(1, 200))
		checkAccount(t, b, r)
	})
}

func TestTheOnlyBatchKeepsItsBackoffWhenTheWebhookCountsAsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := down(status(400))
		b, _ := started(t, testConfig(), r)
		start := time.Now()
		deliver(t, b, event(1))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		last := time.Duration(0)
		for i, at := range r.since(start)[1:] {
			full := min(time.Second<<i, 30*time.Second)
			if wait := at - last; wait < full*8/10 || wait > full+time.Millisecond {
				t.Errorf("try %d came after %v, want %v less up to a fifth", i+2, wait, full)
			}
			last = at
		}
		b.Shutdown(0, false)
		checkAccount(t, b, r)
	})
}

func TestPoisonWithoutOtherTrafficHoldsUpNoGoodEvent(t *testing.T) {
	for poison := 1; poison <= 12; poison++ {
		t.Run(fmt.Sprint(poison), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: func(_ context.Context, req request) error {
					if strings.Contains(req.body, "poison") {
						return status(400)
					}
					return nil
				}}
				b, _ := started(t, testConfig(), r)
				for i := range poison {
					deliver(t, b, fmt.Sprintf(`{"auditID":"poison %d"}`, i))
					time.Sleep(time.Millisecond)
				}
				time.Sleep(10 * time.Minute)
				start := time.Now()
				deliverPatiently(b, []string{event(1)})
				for len(r.got()) == 0 && time.Since(start) < time.Hour {
					time.Sleep(time.Second)
				}
				// Every second probe takes fresh events.
				if wait := time.Since(start); wait > 65*time.Second {
					t.Errorf("the good event was accepted after %v", wait)
				}
				b.Shutdown(time.Second, false)
				wantGot(t, r, []string{event(1)})
				checkAccount(t, b, r)
			})
		})
	}
}

func TestWhileDownOneProbeAtATimeOnTheBackoffSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		var closed time.Time
		cfg.Observer.Health = func(_, to Health) {
			if to == Down {
				closed = time.Now()
			}
		}
		r, heal := down(errRefused)
		b, _ := started(t, cfg, r)
		for i := 0; i < 16; i += 4 {
			deliver(t, b, eventRange(i, i+4)...)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var probed []string
		last := closed
		for _, req := range r.all() {
			if !req.at.After(closed) {
				continue
			}
			full := min(time.Second<<len(probed), 30*time.Second)
			if wait := req.at.Sub(last); wait > full+time.Millisecond || wait < full*8/10 {
				t.Errorf("probe %d came after %v, want %v less up to a fifth", len(probed), wait, full)
			}
			last = req.at
			probed = append(probed, req.items[0])
		}
		if len(probed) < 20 || len(probed) > 29 {
			t.Errorf("%d probes in ten minutes", len(probed))
		}
		for i := 4; i < len(probed); i++ {
			if probed[i] != probed[i-4] {
				t.Errorf("probe %d is %s, want the batches in turn: %v", i, probed[i], probed)
				break
			}
		}
		heal()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wantGot(t, r, eventRange(0, 16))
		b.Shutdown(time.Second, false)
		checkAccount(t, b, r)
	})
}

func TestOneBadBackendOfThreeLosesNothingAndKeepsTheGatesOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		downs := 0
		cfg := testConfig()
		var mu sync.Mutex
		cfg.Observer.Health = func(_, to Health) {
			mu.Lock()
			defer mu.Unlock()
			if to == Down {
				downs++
			}
		}
		r := &receiver{answer: func(_ context.Context, req request) error {
			if req.n%3 == 0 {
				return status(502)
			}
			return nil
		}}
		b, _ := started(t, cfg, r)
		for i := range 500 {
			deliver(t, b, eventRange(i*4, i*4+4)...)
			time.Sleep(50 * time.Millisecond)
		}
		b.Shutdown(10*time.Minute, false)
		wantGot(t, r, eventRange(0, 2000))
		if downs > 5 {
			t.Errorf("the webhook counted as down %d times", downs)
		}
		checkAccount(t, b, r)
	})
}

var randomSeeds = flag.Uint64("random.seeds", 20, "with how many seeds the random faults are played")

func TestRandomFaultsUnderConcurrentIntakeLoseNothing(t *testing.T) {
	for seed := range *randomSeeds {
		synctest.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.BufferSize = 50
			cfg.Observer.Rejected = func(ID, []byte, error) bool { return false } // no event is at fault
			returned := 0
			cfg.Observer.GivenUp = func(ev *Events, owner *Delivery) {
				if owner == nil {
					t.Errorf("%d events are given up that nobody has", ev.Len())
				}
				returned += ev.Len()
			}
			faults := []error{status(400), status(413), status(500), status(503), status(429), errRefused, syscall.ECONNRESET, askedToWait(time.Second)}
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 1))
			healed := false
			r := &receiver{answer: func(_ context.Context, req request) error {
				mu.Lock()
				defer mu.Unlock()
				if healed || rnd.IntN(100) < 40 {
					return nil
				}
				if rnd.IntN(20) == 0 {
					panic("fault")
				}
				return faults[rnd.IntN(len(faults))]
			}}
			b, stop := started(t, cfg, r)
			var taken []string
			var wg sync.WaitGroup
			var takenMu sync.Mutex
			for g := range 4 {
				wg.Go(func() {
					for i := range 40 {
						events := eventRange(g*1000+i*3, g*1000+i*3+3)
						for {
							var err error
							if g%2 == 0 {
								err = b.ProcessEvents(context.Background(), fill(b, events))
							} else {
								d := b.NewDelivery()
								err = d.Add(context.Background(), fill(b, events))
								d.End()
							}
							if err == nil {
								break
							}
							time.Sleep(time.Second)
						}
						takenMu.Lock()
						taken = append(taken, events...)
						takenMu.Unlock()
					}
				})
			}
			wg.Wait()
			close(stop)
			mu.Lock()
			healed = true
			mu.Unlock()
			b.Shutdown(10*time.Minute, false)
			if got := len(r.got()); got+returned != len(taken) {
				t.Errorf("taken %d, accepted %d, returned %d", len(taken), got, returned)
			}
			checkAccount(t, b, r)
		})
	}
}

// One server of three refuses at once what the others take a second for.
func TestQuickFailuresBesideSlowSuccessesDoNotCloseTheGates(t *testing.T) {
	for _, err := range []error{status(400), status(500), errRefused} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				downs := 0
				cfg.Observer.Health = func(_, to Health) {
					if to == Down {
						downs++
					}
				}
				r := &receiver{answer: func(_ context.Context, req request) error {
					if req.n%3 == 1 {
						return err
					}
					time.Sleep(time.Second)
					return nil
				}}
				b, _ := started(t, cfg, r)
				var all []*Delivery
				for i := range 40 {
					all = append(all, deliver(t, b, event(i)))
				}
				for _, d := range all {
					<-d.Done()
				}
				if downs != 0 {
					t.Errorf("the webhook counted as down %d times", downs)
				}
				b.Shutdown(time.Second, false)
				wantGot(t, r, eventRange(0, 40))
				checkAccount(t, b, r)
			})
		})
	}
}

func TestWhatAReceiverMayHaveStoredIsRepeatedByteForByte(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"stored, then answered 500", status(500)},
		{"stored, and the answer is lost", syscall.ECONNRESET},
		{"stored, and no answer in time", context.DeadlineExceeded},
	} {
		for _, accepted := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, the outage ends with a probe of %d", tt.name, accepted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					over := time.Now().Add(time.Hour)
					var healed atomic.Bool
					r := &receiver{answer: func(_ context.Context, req request) error {
						time.Sleep(time.Millisecond)
						if time.Now().After(over) && len(req.items) == accepted {
							healed.Store(true)
						}
						if healed.Load() {
							return nil
						}
						return tt.err
					}}
					b, _ := started(t, testConfig(), r)
					for i := 0; i < 40; i += 4 {
						deliver(t, b, eventRange(i, i+4)...)
					}
					time.Sleep(61 * time.Minute)
					b.Shutdown(time.Minute, false)
					wantGot(t, r, eventRange(0, 40))
					checkAccount(t, b, r)

					bodies := map[string]int{}
					for _, req := range r.all() {
						bodies[req.body]++
					}
					repeated := 0
					for i := 0; i < 40; i += 4 {
						body := string(fill(b, eventRange(i, i+4)).body())
						if bodies[body] > 4 {
							repeated++
						}
						delete(bodies, body)
					}
					// One goes on in its parts: smaller probes are taken from it.
					parts := map[string]bool{}
					for _, req := range r.all() {
						if bodies[req.body] > 0 {
							for _, item := range req.items {
								parts[item] = true
							}
						}
					}
					if repeated != 9 || len(parts) != 4 {
						t.Errorf("%d of 10 batches were repeated as they were, and %d events came in other bodies, want those of one: %v", repeated, len(parts), parts)
					}
				})
			})
		}
	}
}
