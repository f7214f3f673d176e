// What is done under the lock: it must stay short however much waits.

package batch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkCuttingAFullBuffer cuts 64 MB that wait into bodies of 4 kB, after a receiver has
// refused larger ones, and reports the longest time that the lock was held for one of them.
func BenchmarkCuttingAFullBuffer(b *testing.B) {
	event := `{"auditID":"` + strings.Repeat("x", 660) + `"}`
	for _, tt := range []struct {
		name   string
		failed bool
	}{{"fresh", false}, {"failed before", true}} {
		b.Run(tt.name, func(b *testing.B) {
			var longest time.Duration
			for b.Loop() {
				b.StopTimer()
				cfg := shippedConfig()
				backend := New(cfg, senderFunc(nil))
				now := time.Now()
				backend.mu.Lock()
				for backend.pendingBytes < 63_000_000 {
					ev := backend.NewEvents()
					for range 1450 {
						ev.Add([]byte(event), ID{})
					}
					backend.enqueueLocked(ev, nil)
				}
				if tt.failed {
					for backend.queue.fresh.events > 0 {
						p := backend.cutFreshLocked()
						p.cause, p.tries = causeTooLarge, 1
						backend.queue.add(p, now)
					}
				}
				backend.size.limit, backend.size.refused, backend.size.scouting = 4096, 4700, true
				b.StartTimer()
				cut := 0
				for {
					begin := time.Now()
					p, _ := backend.nextLocked(now)
					if p == nil {
						break
					}
					longest = max(longest, time.Since(begin))
					if p.body() > 4096 {
						b.Fatalf("a body of %d bytes", p.body())
					}
					cut++
				}
				backend.mu.Unlock()
				if cut < 63_000_000/4096 {
					b.Fatalf("%d batches", cut)
				}
			}
			b.ReportMetric(float64(longest.Microseconds()), "µs/longest")
		})
	}
}

// senderFunc is a Sender made of a function.
type senderFunc func(ctx context.Context, body []byte) error

func (f senderFunc) Send(ctx context.Context, body []byte) error { return f(ctx, body) }

func TestNoObserverIsCalledAfterShutdown(t *testing.T) {
	for range 300 {
		var mu sync.Mutex
		over, late := false, 0
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			if over {
				late++
			}
		}
		cfg := shippedConfig()
		cfg.Observer = Observer{
			Failed:   func(Failure) { note() },
			Accepted: func([]ID) { note() },
			Health:   func(_, _ Health) { note() },
			GivenUp:  func(*Events, *Delivery) { note() },
		}
		b := New(cfg, senderFunc(func(_ context.Context, body []byte) error {
			if strings.Contains(string(body), "0001") {
				return nil
			}
			return errRefused
		}))
		if err := b.Run(nil); err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			deliver(t, b, event(i))
		}
		b.Shutdown(0, false)
		mu.Lock()
		over = true
		mu.Unlock()
		time.Sleep(50 * time.Microsecond) // for what would be wrong to happen
		mu.Lock()
		if late > 0 {
			t.Fatalf("the observer was called %d times after Shutdown had returned", late)
		}
		mu.Unlock()
	}
}

func TestAPanicInAnObserverCostsAReportAndNoEvent(t *testing.T) {
	reports := make(chan any, 100)
	cfg := testConfig()
	cfg.Observer = Observer{
		Failed:   func(Failure) { panic("failed") },
		Accepted: func([]ID) { panic("accepted") },
		Panicked: func(v any, stack []byte) {
			if len(stack) == 0 {
				t.Error("no stack")
			}
			reports <- v
		},
	}
	r := &receiver{answer: func(_ context.Context, req request) error {
		if req.n == 1 {
			return askedToWait(time.Millisecond)
		}
		return nil
	}}
	cfg.InitialBackoff = time.Millisecond
	b, _ := started(t, cfg, r)
	d := deliver(t, b, event(1))
	<-d.Done()
	b.Shutdown(time.Second, false)
	wantGot(t, r, []string{event(1)})
	checkAccount(t, b, r)
	close(reports)
	var got []any
	for v := range reports {
		got = append(got, v)
	}
	if len(got) != 2 || got[0] != "failed" || got[1] != "accepted" {
		t.Errorf("told of %v", got)
	}
}
