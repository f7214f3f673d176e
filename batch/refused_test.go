// A single event that is refused: made smaller, or set aside, and by what.

package batch

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// refusing refuses each body that holds text.
func refusing(text string, err error) *receiver {
	return &receiver{answer: func(_ context.Context, req request) error {
		if strings.Contains(req.body, text) {
			return err
		}
		return nil
	}}
}

// asides is what an observer was asked to set aside.
type asides struct {
	mu     sync.Mutex
	events []string
	errs   []error
	at     []time.Time
	keep   bool
}

func (a *asides) rejected(id ID, event []byte, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != idOf(string(event)) {
		panic("the event has another one's identity")
	}
	a.events, a.errs, a.at = append(a.events, string(event)), append(a.errs, err), append(a.at, time.Now())
	return !a.keep
}

func (a *asides) want(t *testing.T, events ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.events, events) {
		t.Errorf("set aside %q, want %q", a.events, events)
	}
}

// others delivers an event a second for that long, from number on.
func others(t *testing.T, b *Backend, number int, long time.Duration) (delivered []string) {
	t.Helper()
	for range int(long / time.Second) {
		deliver(t, b, event(number))
		delivered = append(delivered, event(number))
		number++
		time.Sleep(time.Second)
	}
	return delivered
}

func TestAnEventThatIsRefusedWhileOthersAreAcceptedIsSetAside(t *testing.T) {
	for _, tt := range []struct {
		err      error
		requests int
		after    time.Duration
	}{
		{status(400), 6, 5 * time.Minute},
		{status(403), 6, 5 * time.Minute},
		{status(413), 6, 5 * time.Minute},
		{status(422), 6, 5 * time.Minute},
		{status(500), 6, 5 * time.Minute},
		{status(503), 6, 5 * time.Minute},
		{context.DeadlineExceeded, 6, 5 * time.Minute},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxBackoff = 30 * time.Second
				aside := &asides{}
				cfg.Observer.Rejected = aside.rejected
				bad := event(7777)
				r := refusing(bad, tt.err)
				b, _ := started(t, cfg, r)
				d := deliver(t, b, bad)
				start := time.Now()
				good := others(t, b, 0, tt.after)
				synctest.Wait()
				aside.want(t, bad)
				if len(aside.errs) != 1 || !errors.Is(aside.errs[0], tt.err) {
					t.Errorf("with %v, want %v", aside.errs, tt.err)
				}
				tries := 0
				for _, req := range r.all() {
					if strings.Contains(req.body, bad) {
						tries++
					}
				}
				// Six are certain where next to nothing else fails, which has to be learnt first.
				if tries < tt.requests || tries > tt.requests+6 {
					t.Errorf("set aside after %d requests, want %d to %d", tries, tt.requests, tt.requests+6)
				}
				if took := aside.at[0].Sub(start); took > tt.after {
					t.Errorf("after %v", took)
				}
				select {
				case <-d.Done():
				default:
					t.Error("the delivery is not settled")
				}
				if got := d.Result(); got != (Result{Rejected: 1}) {
					t.Errorf("%+v, want one rejected", got)
				}
				b.Shutdown(time.Second, false)
				wantGot(t, r, good)
				if s := b.Stats(); s.Rejected != 1 {
					t.Errorf("rejected %d, want 1", s.Rejected)
				}
				checkAccount(t, b, r)
			})
		})
	}
}

func TestAReceiverThatRefusesEverythingGetsNothingSetAside(t *testing.T) {
	for _, err := range []error{status(400), status(413), status(500), status(404), errRefused} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				aside := &asides{}
				cfg.Observer.Rejected = aside.rejected
				r, heal := down(err)
				b, _ := started(t, cfg, r)
				for i := range 10 {
					_ = b.NewDelivery().Add(now(), fill(b, []string{event(i)}))
				}
				taken := b.Stats().Taken
				time.Sleep(24 * time.Hour)
				heal()
				time.Sleep(time.Hour)
				synctest.Wait()
				aside.want(t)
				if s := b.Stats(); s.Accepted != taken || taken == 0 {
					t.Errorf("accepted %d of %d", s.Accepted, taken)
				}
				b.Shutdown(time.Second, false)
				checkAccount(t, b, r)
			})
		})
	}
}

func TestAnEventIsNotSetAsideForWhatIsNoFaultOfIts(t *testing.T) {
	for _, err := range []error{status(401), status(404), status(407), status(408), status(425), status(429), errRefused} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				aside := &asides{}
				cfg.Observer.Rejected = aside.rejected
				r := refusing(event(7777), err)
				b, _ := started(t, cfg, r)
				d := deliver(t, b, event(7777))
				good := others(t, b, 0, 30*time.Minute)
				synctest.Wait()
				aside.want(t)
				if d.Pending() != 1 {
					t.Error("the event is settled")
				}
				b.Shutdown(time.Second, false)
				wantGot(t, r, good)
				checkAccount(t, b, r)
			})
		})
	}
}

func TestAnEventThatCannotBeKeptElsewhereIsNotSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		aside := &asides{keep: true} // the disk is full, say
		cfg.Observer.Rejected = aside.rejected
		bad := event(7777)
		r := refusing(bad, status(400))
		b, _ := started(t, cfg, r)
		d := deliver(t, b, bad)
		good := others(t, b, 0, 10*time.Minute)
		if d.Pending() != 1 || len(aside.events) < 2 {
			t.Errorf("pending %d, asked %d times, want it to be kept and asked about again", d.Pending(), len(aside.events))
		}
		aside.mu.Lock()
		aside.keep = false
		aside.mu.Unlock()
		good = append(good, others(t, b, 5000, 2*time.Minute)...)
		synctest.Wait()
		if got := d.Result(); got != (Result{Rejected: 1}) {
			t.Errorf("%+v, want one rejected", got)
		}
		b.Shutdown(time.Second, false)
		wantGot(t, r, good)
		checkAccount(t, b, r)
	})
}

func TestAnEventThatIsTooLargeGoesOnSmaller(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes int  // bytes of body
		to    int  // what remains of the event; 0: it cannot be made smaller
		aside bool // in the end
	}{
		{"and is accepted", 400, 100, false},
		{"and is refused all the same", 150, 100, true},
		{"which is not possible", 400, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				large := `{"auditID":"large","filler":"` + strings.Repeat("x", 1000) + `"}`
				small := `{"auditID":"large","filler":"` + strings.Repeat("x", tt.to) + `"}`
				cfg := testConfig()
				aside := &asides{}
				var shrunk []string
				cfg.Observer.Rejected = aside.rejected
				cfg.Observer.Shrunk = func(event []byte, err error) { shrunk = append(shrunk, string(event)) }
				cfg.Shrink = func(event []byte) []byte {
					if tt.to == 0 || !bytes.Contains(event, []byte("large")) {
						return nil
					}
					return []byte(small)
				}
				r := taking(tt.takes, status(413))
				b, _ := started(t, cfg, r)
				d := deliver(t, b, event(1), large, event(2))
				good := append(others(t, b, 10, 10*time.Minute), event(1), event(2))
				synctest.Wait()
				if tt.aside {
					aside.want(t, large) // whole
				} else {
					good = append(good, small)
				}
				want := []string{large}
				if tt.to == 0 {
					want = nil
				}
				if !slices.Equal(shrunk, want) {
					t.Errorf("told of %d events, want %d", len(shrunk), len(want))
				}
				if d.Pending() != 0 {
					t.Error("the delivery is not settled")
				}
				b.Shutdown(time.Second, false)
				wantGot(t, r, good)
				checkAccount(t, b, r)
			})
		})
	}
}
