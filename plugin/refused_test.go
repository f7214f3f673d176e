package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSeveralRefusedEventsHoldUpNoOther gives chunks one at a time, as Fluent
// Bit's engine does, and again a few seconds after RETRY.
func TestSeveralRefusedEventsHoldUpNoOther(t *testing.T) {
	for _, answer := range []status{400, 500} {
		for _, mode := range []Mode{ModeBlocking, ModeBatch} {
			for _, bad := range []int{1, 3, 10} {
				t.Run(fmt.Sprintf("%d/%s/%d", answer, mode, bad), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						const chunks, perChunk = 80, 100
						refused := func(i int) bool { return i%(chunks*perChunk/bad) == 57 }
						r := &receiver{answer: func(_ context.Context, _ int, items []string) error {
							time.Sleep(5 * time.Millisecond)
							for _, item := range items {
								if strings.Contains(item, "refused") {
									return answer
								}
							}
							return nil
						}}
						in, _ := started(t, r, "Mode", string(mode))
						type task struct {
							chunk []byte
							due   time.Time
						}
						start := time.Now()
						var tasks []task
						for c := range chunks {
							events := eventRange(c*perChunk, (c+1)*perChunk)
							for i := range events {
								if refused(c*perChunk + i) {
									events[i] = strings.Replace(events[i], `"ResponseComplete"`, `"ResponseComplete","refused":true`, 1)
								}
							}
							tasks = append(tasks, task{chunk(events...), start})
						}
						accepted := func() int {
							r.mu.Lock()
							defer r.mu.Unlock()
							return len(r.items)
						}
						for accepted() < chunks*perChunk-bad && time.Since(start) < 3*time.Minute {
							next := -1
							for i := range tasks {
								if next < 0 || tasks[i].due.Before(tasks[next].due) {
									next = i
								}
							}
							if next < 0 {
								time.Sleep(10 * time.Millisecond)
								continue
							}
							if wait := time.Until(tasks[next].due); wait > 0 {
								time.Sleep(min(wait, 10*time.Millisecond))
								continue
							}
							if flush(in, tasks[next].chunk) == Retry {
								tasks[next].due = time.Now().Add(3 * time.Second)
								continue
							}
							tasks = append(tasks[:next], tasks[next+1:]...)
						}
						took := time.Since(start)
						t.Logf("all others after %v", took)
						if got, want := accepted(), chunks*perChunk-bad; got != want {
							t.Errorf("%d of the %d other events accepted after %v", got, want, took)
						}
						// 500 may as well be the receiver's own trouble, so it is given more
						// tries before a batch is split. And in mode batch, where few large
						// batches are cut, all of them may hold such an event: then nothing
						// tells the webhook from one that refuses everything, and the probe
						// has to find a part that passes.
						bound := 30 * time.Second
						if answer == 500 || mode == ModeBatch {
							bound = 2 * time.Minute
						}
						if took > bound {
							t.Errorf("the other events took %v, want %v at most", took, bound)
						}
						in.Exit()
						checkAccount(t, in, r)
					})
				})
			}
		}
	}
}
