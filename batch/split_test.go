// Splitting and learnt sizes: receivers that refuse a batch for its size or for
// one event in it.

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

// taking refuses with err every body over size.
func taking(size int, err error) *receiver {
	return &receiver{answer: func(_ context.Context, req request) error {
		if len(req.body) > size {
			return err
		}
		return nil
	}}
}

func TestASizeThatIsRefusedIsFoundAndRemembered(t *testing.T) {
	for _, err := range []error{status(413), status(400), status(422), status(500), syscall.ECONNRESET, context.DeadlineExceeded} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxSize, cfg.MaxBytes, cfg.BufferSize = 1000, 1<<20, 1e6
				r := taking(2000, err)
				b, _ := started(t, cfg, r)
				for i := range 10 {
					deliverPatiently(b, eventRange(i*100, i*100+100))
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				wantGot(t, r, eventRange(0, 1000))
				// From now on the size is known: few refusals among many batches.
				before := b.Stats()
				for i := range 100 {
					deliverPatiently(b, eventRange(1000+i*100, 1100+i*100))
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				wantGot(t, r, eventRange(0, 11000))
				s := b.Stats()
				failures, batches := s.Failures-before.Failures, s.Batches-before.Batches
				if err == status(413) && failures > batches/20 {
					t.Errorf("%d refusals in %d accepted batches: the size was not remembered", failures, batches)
				}
				b.Shutdown(time.Second, false)
				checkAccount(t, b, r)
			})
		})
	}
}

func TestABackendThatRefusesAtRandomTeachesNoSize(t *testing.T) {
	const seeds = 20
	total := uint64(0)
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.MaxSize, cfg.MaxBytes, cfg.BufferSize = 1000, 1<<20, 1e6
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 0))
			r := &receiver{answer: func(context.Context, request) error {
				time.Sleep(time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if random.IntN(3) == 0 { // the one of three that is bad
					return status(400)
				}
				return nil
			}}
			b, _ := started(t, cfg, r)
			for i := range 100 {
				deliverPatiently(b, eventRange(i*20, i*20+20))
				time.Sleep(10 * time.Millisecond)
			}
			b.Shutdown(5*time.Minute, false)
			wantGot(t, r, eventRange(0, 2000))
			checkAccount(t, b, r)
			total += b.Stats().Batches
		})
	}
	// A third of the batches go on in halves, and a third of these.
	if want := uint64(300 * seeds); total > want {
		t.Errorf("%d batches went in %d, want at most %d", 100*seeds, total, want)
	}
}

func TestAReceiverThatRefusesEverythingGetsNoStormOfSplits(t *testing.T) {
	for _, err := range []error{status(413), status(400), status(500), status(404), errRefused} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxSize = 1000
				r, heal := down(err)
				b, _ := started(t, cfg, r)
				for i := range 8 {
					_ = b.NewDelivery().Add(now(), fill(b, eventRange(i*100, i*100+100)))
				}
				taken := b.Stats().Taken
				time.Sleep(10 * time.Minute)
				// Fifty until it counts as down, and one each thirty seconds.
				if n := len(r.all()); n > 75 {
					t.Errorf("%d requests in ten minutes in which everything failed", n)
				}
				heal()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if s := b.Stats(); s.Accepted != taken {
					t.Errorf("accepted %d of %d", s.Accepted, taken)
				}
				b.Shutdown(time.Second, false)
				checkAccount(t, b, r)
			})
		})
	}
}

func TestAPoisonEventIsIsolatedWithFewExtraRequests(t *testing.T) {
	for _, tt := range []struct {
		answer status
		extra  int // beyond 2·⌈log2 n⌉
	}{{400, 3}, {422, 3}, {500, 4}} {
		for _, n := range []int{2, 3, 100, 400, 1000} {
			t.Run(fmt.Sprintf("%d among %d", tt.answer, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := testConfig()
					cfg.MaxSize, cfg.MaxBytes = 10000, 1<<20
					cfg.BufferSize = 10000
					poison := event(rand.IntN(n))
					r := &receiver{answer: func(_ context.Context, req request) error {
						if strings.Contains(req.body, poison) {
							return tt.answer
						}
						return nil
					}}
					b, _ := started(t, cfg, r)
					bad := b.NewDelivery()
					if err := bad.Add(now(), fill(b, eventRange(0, n))); err != nil {
						t.Fatal(err)
					}
					bad.End()
					steady := 0
					for i := range 60 {
						time.Sleep(time.Second)
						deliver(t, b, event(5000+i))
						steady++
					}
					synctest.Wait()
					isolating := 0
					for _, req := range r.all() {
						if len(req.items) > 1 || req.items[0] < event(5000) && req.items[0] != poison {
							isolating++
						}
					}
					levels := 0
					for 1<<levels < n {
						levels++
					}
					if isolating-1 > 2*levels+tt.extra {
						t.Errorf("%d extra requests to isolate the one event, want at most %d", isolating-1, 2*levels+tt.extra)
					}
					want := slices.DeleteFunc(eventRange(0, n), func(e string) bool { return e == poison })
					wantGot(t, r, append(want, eventRange(5000, 5000+steady)...))
					if got := bad.Result().Accepted; got != n-1 {
						t.Errorf("%d of the %d good events settled", got, n-1)
					}
					b.Shutdown(time.Second, false)
					checkAccount(t, b, r)
				})
			})
		}
	}
}
