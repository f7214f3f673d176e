package plugin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRandomRestartsAndReloadsDeliverEachEventOnce has chunks of any size, bounds
// of any size, a webhook that fails every second time without storing, and a
// process that is stopped and reloaded at any moment, even after an answer that
// nobody has read.
func TestRandomRestartsAndReloadsDeliverEachEventOnce(t *testing.T) {
	for _, mode := range []Mode{ModeBlocking, ModeBatch} {
		for seed := range uint64(60) {
			t.Run(fmt.Sprintf("%s/%d", mode, seed), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) { restarts(t, mode, seed, dir) })
			})
		}
	}
}

func restarts(t *testing.T, mode Mode, seed uint64, dir string) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := &receiver{}
	failing := func(ctx context.Context, n int, _ []string) error {
		select {
		case <-time.After(time.Duration(1+n*37%400) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if (uint64(n)*2654435761+seed)>>4%2 == 0 {
			return errors.New("connection refused")
		}
		return nil
	}
	r.now(failing)
	keys := func() []string {
		size := 1 + rnd.IntN(8)
		return []string{"Mode", string(mode), "State_Dir", dir, "Dead_Letter_Dir", dir,
			"Batch_Max_Size", strconv.Itoa(size), "Batch_Max_Bytes", strconv.Itoa(1024 + rnd.IntN(2000)), "Batch_Max_Wait", "10ms",
			"Batch_Buffer_Size", strconv.Itoa(size + rnd.IntN(30)), "Max_Concurrent_Requests", strconv.Itoa(1 + rnd.IntN(3)),
			"Initial_Backoff", "500ms", "Max_Backoff", "2s", "Flush_Timeout", "1s", "Drain_Timeout", "1s"}
	}
	type task struct {
		chunk  []byte
		events []string
	}
	var tasks []task
	var all []string
	for range 1 + rnd.IntN(6) {
		var events []string
		for range 1 + rnd.IntN(40) {
			e := event(len(all))
			if rnd.IntN(4) == 0 {
				e = strings.TrimSuffix(e, "}") + `,"x":"` + strings.Repeat("x", rnd.IntN(1500)) + `"}`
			}
			events, all = append(events, e), append(all, e)
		}
		tasks = append(tasks, task{chunk(events...), events})
	}
	in, _ := started(t, r, keys()...)
	for steps := 0; len(tasks) > 0; steps++ {
		if steps == 500 {
			r.now(nil)
		}
		if steps > 1000 {
			t.Fatal("it does not come to an end")
		}
		reload := rnd.IntN(6) == 0
		if reload {
			in.process.PreRegister(true)
		}
		i := rnd.IntN(len(tasks))
		answer := flush(in, tasks[i].chunk)
		if answer == Error {
			t.Fatal("a chunk is dropped")
		}
		if answer == OK && mode == ModeBlocking && !r.has(tasks[i].events) {
			t.Fatalf("a chunk is done though not all of its events are accepted")
		}
		ends := reload || rnd.IntN(6) == 0
		if answer == OK && !(ends && rnd.IntN(2) == 0) { // else the answer is not read
			tasks = append(tasks[:i], tasks[i+1:]...)
		}
		switch {
		case reload:
			in.process.PreExit(true)
			in.Exit()
			in = startedIn(t, in.process, r, keys()...)
		case ends:
			stop(in)
			in, _ = started(t, r, keys()...)
		}
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
	}
	// What mode batch still holds, or had to keep, arrives in the end.
	r.now(nil)
	stop(in)
	in, _ = started(t, r, keys()...)
	time.Sleep(time.Minute)
	stop(in)
	r.wantGot(t, all...)
}

// has says whether all of these events were accepted.
func (r *receiver) has(events []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string]bool{}
	for _, e := range r.items {
		got[e] = true
	}
	for _, e := range events {
		if !got[e] {
			return false
		}
	}
	return true
}
