package plugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// refuse is a webhook that is down.
func refuse(context.Context, int, []string) error { return errors.New("connection refused") }

// reload exits in as Fluent Bit does for a hot reload and starts another
// instance, which sends to r.
func reload(t *testing.T, in *Instance, r *receiver, keys ...string) *Instance {
	t.Helper()
	in.process.PreRegister(true)
	in.process.PreExit(true)
	in.Exit()
	return startedIn(t, in.process, r, keys...)
}

// stop exits in as Fluent Bit does when it ends.
func stop(in *Instance) {
	in.process.PreExit(false)
	in.Exit()
}

func TestAfterAReloadADeliveredChunkIsNotSentAgain(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: sleeping(10 * time.Second)}
				keys := []string{"Mode", mode, "Batch_Max_Size", "3", "Batch_Buffer_Size", "8", "Flush_Timeout", "1s"}
				in, _ := started(t, r, keys...)
				first, second := chunk(eventRange(0, 5)...), chunk(eventRange(5, 15)...)
				flush(in, first)
				if answer := flush(in, second); answer != Retry {
					t.Fatalf("answer %d, want RETRY", answer)
				}
				in = reload(t, in, r, keys...)
				if mode == "blocking" {
					if answer := flush(in, first); answer != OK {
						t.Errorf("the finished chunk: answer %d, want OK", answer)
					}
				}
				for flush(in, second) != OK {
					time.Sleep(time.Second)
				}
				stop(in)
				r.wantGot(t, eventRange(0, 15)...)
			})
		})
	}
}

func TestAfterAReloadWithTheWebhookDownOnlyTheRestIsSent(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The webhook accepts the first batch and is down from then on.
				r := &receiver{answer: func(_ context.Context, n int, _ []string) error {
					if n > 1 {
						return errors.New("connection refused")
					}
					return nil
				}}
				keys := []string{"Mode", mode, "Batch_Max_Size", "10", "Max_Concurrent_Requests", "1", "Batch_Max_Wait", "1ms"}
				in, log := started(t, r, keys...)
				c := chunk(eventRange(0, 35)...)
				answer := flush(in, c)
				for range 3 { // reloads while it is down
					in = reload(t, in, r, keys...)
				}
				if got := r.requests(); got < 4 {
					t.Errorf("%d requests, want some by each instance", got)
				}
				r.now(nil)
				for answer != OK {
					time.Sleep(time.Second)
					answer = flush(in, c)
				}
				stop(in)
				r.wantGot(t, eventRange(0, 35)...)
				if n := log.count("is lost"); n != 0 {
					t.Errorf("%d lines tell of losses", n)
				}
				if waiting, _ := in.claims.counts(); waiting != 0 {
					t.Errorf("%d deliveries still wait", waiting)
				}
			})
		})
	}
}

func TestAChunkWhoseAnswerAReloadCutOffIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Second)}
		in, _ := started(t, r)
		before, read, unread := chunk(event(0)), chunk(event(1)), chunk(event(2))
		flush(in, before)
		in.process.PreRegister(true)
		flush(in, read)
		flush(in, unread) // Fluent Bit has read the answer before it sends this one
		in.process.PreExit(true)
		in.Exit()
		in = startedIn(t, in.process, r)
		if answer := flush(in, unread); answer != OK {
			t.Errorf("answer %d", answer)
		}
		r.wantGot(t, eventRange(0, 3)...)
		// Equal chunks that come for another reason are other chunks.
		for _, c := range [][]byte{before, read, unread} {
			if answer := flush(in, c); answer != OK {
				t.Errorf("answer %d", answer)
			}
		}
		stop(in)
		r.wantGot(t, append(eventRange(0, 3), eventRange(0, 3)...)...)
	})
}

func TestAnAnswerThatWasPerhapsReadIsForgottenAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r)
		c := chunk(event(0))
		in.process.PreRegister(true)
		flush(in, c)
		in.process.PreExit(true)
		in.Exit()
		in = startedIn(t, in.process, r)
		time.Sleep(time.Hour)
		if answer := flush(in, c); answer != OK {
			t.Errorf("answer %d", answer)
		}
		if waiting, _ := in.claims.counts(); waiting != 0 {
			t.Errorf("%d deliveries still wait", waiting)
		}
		stop(in)
		r.wantGot(t, event(0), event(0))
	})
}

func TestOnlyTheSameDestinationAndModeGoesOn(t *testing.T) {
	for _, other := range []struct{ name, query, mode string }{
		{"another destination", "?other", "blocking"},
		{"another mode", "", "batch"},
	} {
		t.Run(other.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: sleeping(10 * time.Second)}
				in, _ := started(t, r)
				c := chunk(event(0))
				flush(in, c)
				next := &receiver{query: other.query}
				in = reload(t, in, next, "Mode", other.mode)
				if answer := flush(in, c); answer != OK {
					t.Errorf("answer %d", answer)
				}
				stop(in)
				r.wantGot(t, event(0))
				next.wantGot(t, event(0))
			})
		})
	}
}

func TestTwoOutputsOfOneDestinationGoOnWithTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Process{Log: &logBuffer{}}
		r := &receiver{answer: sleeping(10 * time.Second)}
		first, second := startedIn(t, p, r), startedIn(t, p, r)
		c := chunk(event(0))
		flush(first, c)
		flush(second, c)
		p.PreRegister(true)
		for _, in := range []*Instance{first, second} {
			p.PreExit(true)
			in.Exit()
		}
		first, second = startedIn(t, p, r), startedIn(t, p, r)
		for _, in := range []*Instance{second, first} {
			if answer := flush(in, c); answer != OK {
				t.Errorf("answer %d", answer)
			}
		}
		stop(first)
		stop(second)
		r.wantGot(t, event(0), event(0))
	})
}

func TestWhatNoInstanceGoesOnWithIsToldAsLost(t *testing.T) {
	for _, end := range []struct {
		name string
		how  func(t *testing.T, p *Process)
	}{
		{"nobody comes in time", func(t *testing.T, p *Process) { time.Sleep(handoverKept) }},
		{"the configuration is wrong", func(t *testing.T, p *Process) {
			if _, err := p.Init(from("Mode", "fast")); err == nil {
				t.Error("it started")
			}
		}},
		{"the process ends", func(t *testing.T, p *Process) { stop(startedIn(t, p, &receiver{query: "?other"}, "Mode", "batch")) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, log := started(t, &receiver{answer: refuse}, "Mode", "batch")
				flush(in, chunk(event(7)))
				in.process.PreRegister(true)
				in.process.PreExit(true)
				in.Exit()
				if n := log.count("is lost"); n != 0 {
					t.Errorf("%d lines tell of losses too early", n)
				}
				end.how(t, in.process)
				synctest.Wait()
				if n := log.count("an event is lost: Drain_Timeout is over event=00007/ResponseComplete"); n != 1 {
					t.Errorf("%d lines tell of the loss, want 1:\n%s", n, log)
				}
				if len(in.process.left) != 0 {
					t.Error("what was left is still kept")
				}
			})
		})
	}
}

func TestAReloadWithSmallerBatchesCutsWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: refuse}
		in, _ := started(t, r)
		c := chunk(eventRange(0, 25)...)
		flush(in, c)
		most := 0
		next := &receiver{answer: func(_ context.Context, _ int, items []string) error {
			most = max(most, len(items))
			return nil
		}}
		in = reload(t, in, next, "Batch_Max_Size", "10", "Max_Concurrent_Requests", "1")
		if answer := flush(in, c); answer != OK {
			t.Errorf("answer %d", answer)
		}
		stop(in)
		next.wantGot(t, eventRange(0, 25)...)
		if most != 10 {
			t.Errorf("the largest batch has %d events, want 10", most)
		}
	})
}
