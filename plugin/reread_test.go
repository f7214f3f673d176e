package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"out_k8saudit/plugin/ledger"
	"out_k8saudit/plugin/record"
)

// This file hands over again what was handed over before, as Fluent Bit does after RETRY
// and in_tail after a rotation: each event goes out once.

func TestAChunkThatComesAgainInAnyStateIsDeliveredOnce(t *testing.T) {
	mixed := func(lines ...string) []string {
		return append([]string{"no event", `{"kind":"Pod"}`}, lines...)
	}
	for _, mode := range []string{"blocking", "batch"} {
		for _, tt := range []struct {
			name    string
			keys    []string
			answer  func(ctx context.Context, n int, items []string) error
			refused string // an event that is never taken
		}{
			{name: "accepted"},
			{name: "in flight", answer: sleeping(20 * time.Second)},
			{name: "half taken", keys: []string{"Batch_Buffer_Size", "5", "Batch_Max_Size", "5", "Max_Concurrent_Requests", "1"}, answer: sleeping(3 * time.Second)},
			{name: "refused at first", answer: func(_ context.Context, n int, _ []string) error {
				if n < 4 {
					return errors.New("connection refused")
				}
				return nil
			}},
			{name: "half refused", keys: []string{"Batch_Max_Size", "5", "Max_Concurrent_Requests", "1"}, answer: func(_ context.Context, n int, _ []string) error {
				if n%2 == 0 {
					return status(500)
				}
				return nil
			}},
			{name: "one event refused for good", refused: event(7)},
		} {
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					r := &receiver{answer: tt.answer}
					want := eventRange(0, 20)
					if tt.refused != "" {
						r = refusing(tt.refused)
						want = slices.DeleteFunc(want, func(e string) bool { return e == tt.refused })
					}
					in, log := started(t, r, append(tt.keys, "Mode", mode, "Dead_Letter_Dir", dir, "Drain_Timeout", "1h")...)
					c := chunk(mixed(eventRange(0, 20)...)...)
					for i := range 600 {
						flush(in, c)
						if i%5 == 3 {
							other := chunk(event(1000 + i))
							want = append(want, event(1000+i))
							for flush(in, other) != OK {
								time.Sleep(time.Second)
							}
						}
						time.Sleep(time.Second)
					}
					if answer := flush(in, c); answer != OK {
						t.Errorf("answer %d, want OK in the end", answer)
					}
					stop(in)
					r.wantGot(t, want...)
					if tt.refused != "" {
						wantLines(t, "rejected.log", content(t, dir, "rejected.log"), tt.refused)
					}
					if n := len(content(t, dir, "skipped.log")); n != 2 {
						t.Errorf("skipped.log has %d lines for two records", n)
					}
					if n := log.count(" skipped_records=2 "); n != 1 {
						t.Errorf("the account:\n%s", log)
					}
					checkAccount(t, in, r)
				})
			})
		}
	}
}

func TestChunksThatOverlapOrAreEqualDeliverEachEventOnce(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: sleeping(time.Second)}
				in, _ := started(t, r, "Mode", mode, "Batch_Max_Size", "7")
				chunks := [][]byte{
					chunk(eventRange(0, 30)...), chunk(eventRange(20, 50)...), chunk(eventRange(0, 30)...), chunk(eventRange(10, 25)...),
					chunk(append(eventRange(45, 55), append(eventRange(45, 55), event(54), event(54))...)...),
				}
				var all sync.WaitGroup
				for _, c := range chunks { // at once, as a host that ignores the flag hands them over
					all.Go(func() {
						for flush(in, c) != OK {
							time.Sleep(2 * time.Second)
						}
					})
				}
				all.Wait()
				for _, c := range chunks {
					if answer := flush(in, c); answer != OK {
						if mode == "blocking" {
							t.Errorf("answer %d, want OK", answer)
						}
					}
				}
				stop(in)
				r.wantGot(t, eventRange(0, 55)...)
				checkAccount(t, in, r)
			})
		})
	}
}

// Of what came during an outage, everything that was in a rotated file is in two chunks.
func TestAfterAnOutageWhatWasReadTwiceIsSentOnceHoweverLongItTakes(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: refuse}
				const events, each = 1000, 50
				in := startedWith(t, &Process{Version: "test", Log: &logBuffer{}}, r, func(c *Config) { c.DuplicateWindow = 200 },
					"Mode", mode, "Batch_Buffer_Size", "50", "Batch_Max_Size", "50")
				var chunks [][]byte
				for from := 0; from < events; from += each {
					chunks = append(chunks, chunk(eventRange(from, from+each)...))
				}
				for from := -each / 2; from < events; from += each {
					chunks = append(chunks, chunk(eventRange(max(from, 0), min(from+each, events))...))
				}
				for range 5 {
					for _, c := range chunks {
						flush(in, c)
						time.Sleep(time.Second)
					}
				}
				r.now(sleeping(time.Second))
				for _, c := range chunks {
					for flush(in, c) != OK {
						time.Sleep(time.Second)
					}
					time.Sleep(20 * time.Second)
				}
				r.wantGot(t, eventRange(0, events)...)
				if len(in.waiting.chunks) != 0 {
					t.Errorf("%d chunks still count as waiting", len(in.waiting.chunks))
				}
				stop(in)
			})
		})
	}
}

func TestAfterAStartABacklogCountsAsWaitingForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waiting{start: time.Now()}
		time.Sleep(backlogTime - 1)
		if !w.answered(ledger.ID{1}, OK) {
			t.Error("nothing waits")
		}
		time.Sleep(time.Nanosecond)
		if w.answered(ledger.ID{1}, OK) {
			t.Error("something waits for ever")
		}
	})
}

func TestAChunkThatNeverComesAgainIsForgottenAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w waiting
		if !w.answered(ledger.ID{1}, Retry) {
			t.Error("it does not wait")
		}
		time.Sleep(waitingKept)
		if !w.answered(ledger.ID{2}, OK) {
			t.Error("it was forgotten within the hour")
		}
		time.Sleep(time.Minute + 1)
		if w.answered(ledger.ID{2}, OK) {
			t.Error("it still waits")
		}
		for i := range uint64(2 * maxWaiting) {
			w.answered(ledger.ID{i}, Retry)
		}
		if len(w.chunks) != maxWaiting {
			t.Errorf("%d chunks wait", len(w.chunks))
		}
	})
}

func TestWhatAnotherFlushMayGiveBackIsNotInTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Hour)}
		in, _ := started(t, r, "Mode", "batch", "Batch_Buffer_Size", "2", "Batch_Max_Size", "2", "Request_Timeout", "1h", "Drain_Timeout", "0")
		flush(in, chunk(event(0), event(1))) // the buffer is full
		first := make(chan Answer)
		go func() { first <- flush(in, chunk(event(2))) }() // waits for room
		synctest.Wait()
		if answer := flush(in, chunk(event(2))); answer != Retry {
			t.Errorf("answer %d, want RETRY: the event is in no buffer", answer)
		}
		if answer := <-first; answer != Retry {
			t.Errorf("answer %d, want RETRY", answer)
		}
		stop(in)
	})
}

func TestEqualEventsOfAChunkAreOneAndTheChunkIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Second)}
		in, log := started(t, r, "Batch_Max_Size", "3")
		if answer := flush(in, chunk(event(0), event(0), event(1), event(1), event(1), event(2), event(0))); answer != OK {
			t.Errorf("answer %d, want OK once they have met each other", answer)
		}
		stop(in)
		r.wantGot(t, event(0), event(1), event(2))
		if n := log.count(" suppressed=0 "); n != 1 {
			t.Errorf("what was in flight counts as suppressed:\n%s", log)
		}
	})
}

func TestAChunkOfWhichNothingIsNewDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(3 * time.Second)}
		in, log := started(t, r)
		done := make(chan struct{})
		go func() {
			defer close(done)
			flush(in, chunk(eventRange(0, 10)...))
		}()
		synctest.Wait()
		start := time.Now()
		if answer := flush(in, chunk(eventRange(3, 8)...)); answer != Retry || time.Since(start) != 0 {
			t.Errorf("in flight: answer %d after %v, want RETRY at once", answer, time.Since(start))
		}
		<-done
		start = time.Now()
		if answer := flush(in, chunk(eventRange(3, 8)...)); answer != OK || time.Since(start) != 0 {
			t.Errorf("done: answer %d after %v, want OK at once", answer, time.Since(start))
		}
		stop(in)
		r.wantGot(t, eventRange(0, 10)...)
		if n := log.count(" suppressed=5 remembered=10\n"); n != 1 {
			t.Errorf("the account:\n%s", log)
		}
	})
}

func TestEventsThatDifferInAnyByteAreDifferentEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r)
		base := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"same","stage":"ResponseComplete","requestReceivedTimestamp":"2026-01-02T03:04:05.000000Z","stageTimestamp":"2026-01-02T03:04:05.000100Z"}`
		events := []string{
			base,
			strings.Replace(base, "000100Z", "000101Z", 1),
			strings.Replace(base, "ResponseComplete", "RequestReceived", 1),
			strings.Replace(base, `{"kind"`, `{ "kind"`, 1),
			strings.Replace(base, "}", `,"x":1}`, 1),
			strings.Replace(base, "}", `,"x":1.0}`, 1),
		}
		for range 2 {
			if answer := flush(in, chunk(events...)); answer != OK {
				t.Errorf("answer %d", answer)
			}
		}
		// Bytes that are not UTF-8 are the same to the receiver, and were not the same.
		odd := []string{strings.Replace(base, "same", "\xff", 1), strings.Replace(base, "same", "\xfe", 1)}
		for range 2 {
			flush(in, chunk(odd...))
		}
		stop(in)
		replaced := strings.Replace(base, "same", "\ufffd", 1)
		r.wantGot(t, append(events, replaced, replaced)...)
	})
}

// parsedEvent is what a JSON parser with stageTimestamp as its time key makes of an event.
func parsedEvent(auditID string, sec, nsec uint32) []byte {
	b := []byte{0x92, 0x92, 0xd7, 0x00, byte(sec >> 24), byte(sec >> 16), byte(sec >> 8), byte(sec), byte(nsec >> 24), byte(nsec >> 16), byte(nsec >> 8), byte(nsec), 0x80, 0x85}
	for _, s := range []string{"kind", "Event", "apiVersion", "audit.k8s.io/v1", "auditID", auditID, "stage", "ResponseComplete", "requestReceivedTimestamp", "2026-01-02T03:04:05.000000Z"} {
		b = append(append(b, 0xd9, byte(len(s))), s...)
	}
	return b
}

func TestWhetherATimestampIsPutBackDoesNotMakeAnotherEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const request = 1767323045 // 2026-01-02T03:04:05Z
		r := &receiver{}
		in, _ := started(t, r)
		// First its timestamp is restored. Then the tag has shown that its times are not
		// the parser's, and it is left out.
		first := parsedEvent("a", request, 100_000)
		flush(in, first)
		flush(in, parsedEvent("b", request, 123_456_789))
		flush(in, first)
		// The parser took the only thing in which these two differ.
		flush(in, slices.Concat(parsedEvent("c", request, 100_000), parsedEvent("c", request, 200_000)))
		stop(in)
		got := map[string]int{}
		for _, e := range r.items {
			for _, id := range []string{"a", "b", "c"} {
				if strings.Contains(e, fmt.Sprintf(`"auditID":%q`, id)) {
					got[id]++
				}
			}
		}
		if got["a"] != 1 || got["b"] != 1 || got["c"] != 2 {
			t.Errorf("%v, want a and b once and c twice:\n%s", got, strings.Join(r.items, "\n"))
		}
	})
}

func TestSkipsAreReportedOncePerChunk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Hour)}
		in, _ := started(t, r, "Dead_Letter_Dir", dir, "Batch_Buffer_Size", "1", "Batch_Max_Size", "1", "Max_Concurrent_Requests", "1", "Request_Timeout", "1h", "Flush_Timeout", "1s", "Drain_Timeout", "0")
		flush(in, chunk(event(0))) // fills the buffer
		c := chunk("no event", event(1), "no event")
		list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[1,{"kind":"Pod"}]}`
		for range 5 {
			if answer := flush(in, c); answer != Retry {
				t.Fatal(answer)
			}
			if answer := flush(in, chunk(list)); answer != OK {
				t.Fatal(answer)
			}
			time.Sleep(time.Minute)
		}
		stop(in)
		// The second one of c is not reached while there is no room.
		if n := len(content(t, dir, "skipped.log")); n != 1+2 {
			t.Errorf("skipped.log has %d lines for three records and items", n)
		}
		total := uint64(0)
		for i := range in.counts.skipped {
			total += in.counts.skipped[i].Load()
		}
		if total != 3 {
			t.Errorf("counted %d", total)
		}
	})
}

func TestEventsThatFindNoRoomAreNewWhenTheyComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Minute)}
		in, _ := started(t, r, "Batch_Buffer_Size", "10", "Batch_Max_Size", "10", "Request_Timeout", "1h", "Drain_Timeout", "0")
		flush(in, chunk(eventRange(0, 10)...))
		for from := 10; from < 500; from += 35 {
			flush(in, chunk(eventRange(from, from+35)...))
		}
		if done, inFlight := in.ledger.Count(); done != 0 || inFlight != 10 {
			t.Errorf("%d done and %d in flight, want the 10 that are in the buffer", done, inFlight)
		}
		stop(in)
		if _, inFlight := in.ledger.Count(); inFlight != 0 {
			t.Errorf("%d are in flight in the end", inFlight)
		}
	})
}

func TestAPanicWhileAChunkIsReadLeavesNothingInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r, "Batch_Max_Size", "4")
		in.walks.New = func() any {
			w := in.newWalk()
			w.reader.OnSkip = func(record.Skip) { panic("in the middle of a chunk") }
			return w
		}
		c := chunk(append(append(eventRange(0, 7), "no event"), eventRange(7, 10)...)...)
		if answer := flush(in, c); answer != Retry {
			t.Errorf("answer %d, want RETRY", answer)
		}
		time.Sleep(time.Second)
		if done, inFlight := in.ledger.Count(); done != 4 || inFlight != 0 {
			t.Errorf("%d done, %d in flight, want the first batch done and nothing in flight", done, inFlight)
		}
		in.walks = sync.Pool{New: func() any { return in.newWalk() }}
		if answer := flush(in, c); answer != OK {
			t.Errorf("answer %d, want OK", answer)
		}
		stop(in)
		r.wantGot(t, eventRange(0, 10)...)
	})
}
