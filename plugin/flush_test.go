package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"out_k8saudit/batch"
)

type status int

func (s status) Error() string   { return fmt.Sprintf("answered %d", int(s)) }
func (s status) StatusCode() int { return int(s) }

// sleeping answers after d.
func sleeping(d time.Duration) func(context.Context, int, []string) error {
	return func(ctx context.Context, _ int, _ []string) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestBlockingAnswersOKWhenEveryEventWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Second)}
		in, _ := started(t, r, "Batch_Max_Size", "10")
		start := time.Now()
		if answer := flush(in, chunk(eventRange(0, 35)...)); answer != OK {
			t.Errorf("answer %d, want OK", answer)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("the flush took %v, want the 1s of four requests at once", took)
		}
		r.wantGot(t, eventRange(0, 35)...)
		in.Exit()
		checkAccount(t, in, r)
	})
}

func TestAChunkThatTakesTooLongIsRetriedAndNotSentAgain(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("back after the end %v", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: sleeping(11 * time.Second)}
				in, _ := started(t, r)
				c := chunk(eventRange(0, 10)...)
				start := time.Now()
				if answer := flush(in, c); answer != Retry || time.Since(start) != 4*time.Second {
					t.Fatalf("answer %d after %v, want RETRY after Flush_Timeout", answer, time.Since(start))
				}
				if late {
					time.Sleep(time.Minute)
				} else {
					time.Sleep(time.Second)
					if answer := flush(in, c); answer != Retry || time.Since(start) != 5*time.Second {
						t.Fatalf("while a request is old: answer %d after %v, want RETRY at once", answer, time.Since(start))
					}
					time.Sleep(6500 * time.Millisecond)
				}
				if answer := flush(in, c); answer != OK {
					t.Errorf("answer %d, want OK", answer)
				}
				if n := r.requests(); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				if answer := flush(in, c); answer != OK {
					t.Errorf("once more: answer %d, want OK", answer)
				}
				in.Exit()
				r.wantGot(t, eventRange(0, 10)...)
				checkAccount(t, in, r)
			})
		})
	}
}

func TestWhileTheWebhookIsDownFlushesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		r := &receiver{answer: func(context.Context, int, []string) error {
			if up.Load() {
				return nil
			}
			return errors.New("connection refused")
		}}
		in, log := started(t, r)
		chunks := map[int][]byte{}
		for i := range 20 {
			chunks[i] = chunk(event(i))
		}
		start := time.Now()
		waits := 0
		for round := 0; len(chunks) > 0; round++ {
			for i, c := range chunks {
				before := time.Now()
				answer := flush(in, c)
				if time.Since(before) > 0 {
					waits++
				}
				switch answer {
				case OK:
					delete(chunks, i)
				case Error:
					t.Fatal("ERROR")
				}
			}
			time.Sleep(5 * time.Second)
			if round == 60 {
				up.Store(true)
			}
			if round > 100 {
				t.Fatalf("%d chunks never done", len(chunks))
			}
		}
		// The first ones wait until the webhook is known to be down.
		if waits > 4 {
			t.Errorf("%d flushes waited in five minutes without the webhook", waits)
		}
		if took := time.Since(start); took < 5*time.Minute {
			t.Errorf("over after %v, before the webhook was up", took)
		}
		in.Exit()
		r.wantGot(t, eventRange(0, 20)...)
		if n := log.count("the webhook is down"); n != 1 {
			t.Errorf("told %d times that the webhook is down:\n%s", n, log)
		}
		if n := log.count("the webhook works again"); n != 1 {
			t.Errorf("told %d times that it works again:\n%s", n, log)
		}
		checkAccount(t, in, r)
	})
}

func TestAChunkLargerThanTheBufferGoesThroughInPartsWithoutRepeats(t *testing.T) {
	for _, mode := range []Mode{ModeBlocking, ModeBatch} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: sleeping(time.Second)}
				in, _ := started(t, r, "Mode", string(mode), "Batch_Max_Size", "5", "Batch_Buffer_Size", "20", "Max_Concurrent_Requests", "2")
				c := chunk(eventRange(0, 203)...)
				tries := 1
				for flush(in, c) == Retry {
					tries++
					time.Sleep(time.Second)
				}
				if tries < 3 {
					t.Errorf("done after %d tries: this test is about a chunk that comes back", tries)
				}
				if taken := in.backend.Stats().Taken; taken != 203 {
					t.Errorf("taken %d, want 203", taken)
				}
				in.Exit()
				r.wantGot(t, eventRange(0, 203)...)
				checkAccount(t, in, r)
			})
		})
	}
}

func TestBatchAnswersOKWhenTheEventsAreInTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(3 * time.Second)}
		in, _ := started(t, r, "Mode", "batch")
		start := time.Now()
		for i := range 3 {
			if answer := flush(in, chunk(event(i))); answer != OK {
				t.Errorf("answer %d, want OK", answer)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		in.Exit()
		if n := r.requests(); n != 1 {
			t.Errorf("%d requests, want the events of three chunks in one", n)
		}
		r.wantGot(t, eventRange(0, 3)...)
		checkAccount(t, in, r)
	})
}

func TestAChunkWithoutAuditEventsIsDoneAndToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, log := started(t, r)
		for i := range 5 {
			if answer := flush(in, chunk("hello", fmt.Sprintf(`{"not":"an event","n":%d}`, i))); answer != OK {
				t.Errorf("answer %d, want OK", answer)
			}
		}
		in.Exit()
		if r.requests() != 0 {
			t.Error("something was sent")
		}
		if n := log.count("a chunk held no audit event"); n != 2 { // at once, and the rest at the end
			t.Errorf("told %d times:\n%s", n, log)
		}
		if !strings.Contains(log.String(), "skipped_records=10") {
			t.Errorf("the account does not say how many:\n%s", log)
		}
		if strings.Contains(log.String(), "hello") {
			t.Error("the log holds what was in the record")
		}
	})
}

func TestADamagedChunkDeliversWhatDecodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, log := started(t, r)
		whole := chunk(eventRange(0, 3)...)
		if answer := flush(in, whole[:len(whole)-10]); answer != OK {
			t.Errorf("answer %d, want OK: a chunk that does not decode must not come back for ever", answer)
		}
		in.Exit()
		r.wantGot(t, eventRange(0, 2)...)
		if !strings.Contains(log.String(), "cut off or damaged") {
			t.Errorf("not told:\n%s", log)
		}
		checkAccount(t, in, r)
	})
}

func TestAnEventRefusedAloneIsNamedOncePerIntervalAndWhenItIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, _ int, items []string) error {
			for _, item := range items {
				if item == event(7) {
					return status(400)
				}
			}
			return nil
		}}
		in, log := started(t, r)
		c := chunk(eventRange(0, 20)...)
		answer := flush(in, c)
		for i := range 600 {
			time.Sleep(time.Second)
			if i%5 == 0 {
				c := chunk(event(1000 + i))
				for flush(in, c) != OK {
					time.Sleep(time.Second)
					if i > 5 {
						t.Errorf("another chunk waits for the refused one")
					}
				}
			}
		}
		if answer != Retry {
			t.Errorf("answer %d, want RETRY", answer)
		}
		if n := log.count(`it is tried again and holds up no other event=00007/ResponseComplete`); n < 2 || n > 5 {
			t.Errorf("named %d times until it was set aside, want once a minute:\n%s", n, log)
		}
		if n := log.count(`it is set aside and not sent again event=00007/ResponseComplete bytes=92 error="answered 400"`); n != 1 {
			t.Errorf("named %d times as set aside, want once:\n%s", n, log)
		}
		// The chunk comes back, and is done.
		if answer := flush(in, c); answer != OK {
			t.Errorf("answer %d, want OK: every event is accepted or set aside", answer)
		}
		r.mu.Lock()
		got := len(r.items)
		r.mu.Unlock()
		if got != 19+120 {
			t.Errorf("%d events accepted, want all but the one: %d", got, 19+120)
		}
		in.Exit()
		checkAccount(t, in, r)
	})
}

func TestOnTheEnginesThreadAFlushWaitsASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The thread keeps the name, so it must end with this goroutine: it stays
		// locked.
		runtime.LockOSThread()
		name := append([]byte(engineThread), 0)
		if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		r := &receiver{answer: sleeping(10 * time.Second)}
		in, log := started(t, r)
		for i := range 2 {
			start := time.Now()
			if answer := flush(in, chunk(event(i))); answer != Retry || time.Since(start) != time.Second {
				t.Errorf("answer %d after %v, want RETRY after 1s", answer, time.Since(start))
			}
		}
		in.Exit()
		if n := log.count("set Workers 1"); n != 1 {
			t.Errorf("warned %d times, want once:\n%s", n, log)
		}
		r.wantGot(t, eventRange(0, 2)...)
		checkAccount(t, in, r)
	})
}

func TestAPanicCostsARetryAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, log := started(t, r)
		in.walks.New = func() any { panic("broken reader") }
		for i := 1; i <= maxPanics; i++ {
			want := Retry
			if i == maxPanics {
				want = Error
			}
			if answer := flush(in, chunk(event(0))); answer != want {
				t.Errorf("try %d: answer %d, want %d", i, answer, want)
			}
		}
		in.walks.New = func() any { return in.newWalk() }
		if answer := flush(in, chunk(event(1))); answer != OK {
			t.Errorf("another chunk: answer %d, want OK", answer)
		}
		in.Exit()
		r.wantGot(t, event(1))
		if !strings.Contains(log.String(), "broken reader") || !strings.Contains(log.String(), "goroutine") {
			t.Errorf("no word of the panic and its stack:\n%s", log)
		}
		checkAccount(t, in, r)
	})
}

func TestManyFlushesAtOnceLoseNothing(t *testing.T) {
	var failing atomic.Int64
	r := &receiver{answer: func(_ context.Context, n int, _ []string) error {
		if n%7 == 0 {
			failing.Add(1)
			return status(503)
		}
		return nil
	}}
	in, _ := started(t, r, "Initial_Backoff", "10ms", "Max_Backoff", "20ms", "Flush_Timeout", "100ms", "Batch_Max_Size", "7", "Batch_Buffer_Size", "50")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				c := chunk(eventRange(g*1000+i*50, g*1000+i*50+30)...)
				for flush(in, c) == Retry {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	in.Exit()
	var want []string
	for g := range 8 {
		for i := range 20 {
			want = append(want, eventRange(g*1000+i*50, g*1000+i*50+30)...)
		}
	}
	r.wantGot(t, want...)
	if failing.Load() == 0 {
		t.Error("no request failed: this test is about those that do")
	}
	checkAccount(t, in, r)
}

func TestAfterExitFluentBitKeepsItsChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r)
		in.Exit()
		if answer := flush(in, chunk(event(1))); answer != Retry {
			t.Errorf("answer %d, want RETRY", answer)
		}
		r.wantGot(t)
	})
}

func TestWhatWasGivenUpAtTheEndIsNotAnsweredOK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(ctx context.Context, _ int, _ []string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		in, _ := started(t, r, "Flush_Timeout", "1h", "Drain_Timeout", "2s")
		answers := make(chan Answer)
		go func() { answers <- flush(in, chunk(event(1))) }()
		synctest.Wait()
		in.Exit()
		if answer := <-answers; answer != Retry {
			t.Errorf("answer %d, want RETRY", answer)
		}
		checkAccount(t, in, r)
	})
}

var _ batch.Sender = (*receiver)(nil)
