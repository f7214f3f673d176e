// Mixtures: receivers that are wrong in several ways at once, buffers that are too small, and
// owners that bring back what was returned to them.

package batch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// owner brings events until each is accepted or rejected, as a chunk in Fluent Bit does.
type owner struct {
	mu   sync.Mutex
	open map[ID]string // neither accepted nor rejected, and not in the backend
}

func (o *owner) take(most int) (events []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, e := range o.open {
		if len(events) == most {
			break
		}
		events = append(events, e)
		delete(o.open, id)
	}
	slices.Sort(events)
	return events
}

func (o *owner) putBack(events ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range events {
		o.open[idOf(e)] = e
	}
}

func TestMixturesOfFaultsLoseNothingAndBlameNoInnocent(t *testing.T) {
	for seed := range *randomSeeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))  // the receiver's, guarded by mu
			load := rand.New(rand.NewPCG(seed, 3)) // of this goroutine
			pick := func(values ...int) int { return values[rnd.IntN(len(values))] }
			cfg := testConfig()
			cfg.MaxSize, cfg.MaxBytes = pick(1, 4, 50, 2000), pick(900, 4096, 1_000_000)
			cfg.BufferSize, cfg.BufferBytes = pick(10, 60, 1000), pick(2000, 20_000, 1<<20)
			cfg.MaxConcurrentRequests = pick(1, 2, 4, 8)
			cfg.ThrottleEnable, cfg.ThrottleQPS, cfg.ThrottleBurst = rnd.IntN(4) == 0, 20, 3

			failures := []error{status(400), status(403), status(413), status(500), status(503), status(429), status(404), errRefused, syscall.ECONNRESET, askedToWait(5 * time.Second)}
			poisonAnswer := failures[rnd.IntN(5)]
			largest := pick(300, 3000, 1<<30, 1<<30)
			sizeAnswer := failures[rnd.IntN(4)]
			randomly := pick(0, 0, 5, 33, 60) // percent
			bans := time.Duration(pick(0, 0, 10)) * time.Second
			hangs := bans == 0 && rnd.IntN(3) == 0
			if bans > 0 || hangs {
				// One slot, and a buffer that such events fill, would leave hours of nothing else.
				cfg.MaxConcurrentRequests, cfg.BufferSize, cfg.BufferBytes = 4, 1000, 1<<20
			}
			var mu sync.Mutex
			var until time.Time
			healed := false
			r := &receiver{answer: func(ctx context.Context, req request) error {
				mu.Lock()
				bad := strings.Contains(req.body, "poison")
				chance, which := rnd.IntN(100) < randomly, rnd.IntN(len(failures))
				now := time.Now()
				isHealed := healed
				banned := now.Before(until)
				if bad && bans > 0 && !banned {
					until = now.Add(bans)
				}
				mu.Unlock()
				wait := 5 * time.Millisecond
				if bad && hangs {
					wait = 20 * time.Second
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return ctx.Err()
				}
				switch {
				case bad:
					return poisonAnswer
				case banned:
					return status(403)
				case isHealed:
					return nil
				case len(req.body) > largest && len(req.items) > 1:
					return sizeAnswer
				case chance:
					return failures[which]
				}
				return nil
			}}
			o := &owner{open: map[ID]string{}}
			var rejected []string
			cfg.Observer.Rejected = func(_ ID, event []byte, _ error) bool {
				mu.Lock()
				defer mu.Unlock()
				if rnd.IntN(3) == 0 {
					return false // the disk is full, say
				}
				rejected = append(rejected, string(event))
				return true
			}
			told := map[string][]string{}
			cfg.Observer.Failed = func(f Failure) {
				if f.Single != nil && !strings.Contains(string(f.Single), "poison") {
					told[string(f.Single)] = append(told[string(f.Single)], fmt.Sprint(time.Now().Format("04:05.000"), " ", f.Err, " ", f.Tries))
				}
			}
			cfg.Observer.GivenUp = func(ev *Events, d *Delivery) {
				if d == nil {
					t.Errorf("%d events are given up that nobody has", ev.Len())
				}
				o.putBack(itemsOf(ev)...)
			}
			r.watched = true
			cfg.Observer.Accepted = r.accepted
			b, stop := started(t, cfg, r)

			var good, poison []string
			n := 0
			bring := func() {
				most, _ := b.Limits()
				events := o.take(min(1+load.IntN(30), most))
				if len(events) == 0 {
					return
				}
				ev, d := fill(b, events), b.NewDelivery()
				if err := d.Add(now(), ev); err != nil {
					b.Release(ev)
					o.putBack(events...)
				}
				d.End()
			}
			for range 300 {
				for range load.IntN(6) {
					e := event(n)
					if load.IntN(60) == 0 {
						e = fmt.Sprintf(`{"auditID":"poison %d"}`, n)
						poison = append(poison, e)
					} else {
						good = append(good, e)
					}
					n++
					if load.IntN(3) == 0 && !strings.Contains(e, "poison") && b.ProcessEvents(now(), fill(b, []string{e})) == nil {
						continue
					}
					o.putBack(e)
				}
				bring()
				time.Sleep(time.Second)
			}
			mu.Lock()
			healed = true
			mu.Unlock()
			for i := 0; i < 20_000 && len(r.got()) < len(good)+i/10; i++ { // others go on being accepted
				if i%10 == 9 {
					e := event(n)
					n++
					good = append(good, e)
					o.putBack(e)
				}
				for range 20 {
					bring()
				}
				time.Sleep(time.Second)
				if got := len(r.got()); got >= len(good)-1 && i > 10 {
					break
				}
			}
			for i := 0; i < 7200 && len(r.got()) < len(good); i++ {
				bring()
				time.Sleep(time.Second)
			}
			close(stop)
			b.Shutdown(0, true)
			wantGot(t, r, good)
			for _, e := range rejected {
				if !slices.Contains(poison, e) {
					t.Errorf("an innocent event is set aside: %s %v", e, told[e])
				}
			}
			checkAccount(t, b, r)
			if t.Failed() {
				cfg.Observer = Observer{}
				t.Fatalf("seed %d: %+v; poison %v, %d above %d %v, %d %% at random, bans %v, hangs %v", seed, cfg, poisonAnswer, len(poison), largest, sizeAnswer, randomly, bans, hangs)
			}
		})
	}
}
