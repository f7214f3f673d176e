package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRandomRestartsReloadsAndKills is a Fluent Bit in small, with one to three outputs:
// chunks of any size that overlap, bounds of any size, a webhook that fails without
// storing, events that it never takes, and a process that is stopped, reloaded or killed
// at any moment, after answers that nobody has read.
//
// Nothing is ever lost, but what a kill finds in the buffer of mode batch. Nothing comes
// twice, but the events of requests that a kill cuts off, and what a window has forgotten
// that is too small.
func TestRandomRestartsReloadsAndKills(t *testing.T) {
	for _, mode := range []Mode{ModeBlocking, ModeBatch} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprintf("%s/%d", mode, seed), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) { newEngine(t, mode, seed, dir).run() })
			})
		}
	}
}

// engine is the Fluent Bit in small.
type engine struct {
	*testing.T
	rnd     *rand.Rand
	mode    Mode
	window  int
	small   bool // the window forgets
	dir     string
	life    int // of the folders: a kill goes on in copies
	process *Process
	outputs []*output
	events  int
}

// output is one [OUTPUT] section, with its webhook and the chunks that wait for it.
type output struct {
	e        *engine
	n        int
	in       *Instance
	receiver *unsteady
	waiting  [][]string
	unread   []string // answered OK, if nobody has read it yet

	mayRepeat, mayLose map[string]bool
	all                map[string]bool
}

// unsteady is a webhook that takes its time, and fails every now and then.
type unsteady struct {
	receiver
	life    int  // requests of earlier lives are cut off
	dead    bool // nobody makes requests, but what is left of a process that was killed
	steady  bool
	seed    uint64
	pending map[int][]string // requests under way
}

func newEngine(t *testing.T, mode Mode, seed uint64, dir string) *engine {
	e := &engine{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), mode: mode, dir: dir, window: 1_000_000}
	if e.small = seed%4 == 3; e.small {
		e.window = 60 + e.rnd.IntN(100) // eight of them hold what is pending, as with any window that can be set
	}
	for n := range 1 + e.rnd.IntN(3) {
		o := &output{e: e, n: n, receiver: &unsteady{seed: seed, pending: map[int][]string{}}, mayRepeat: map[string]bool{}, mayLose: map[string]bool{}, all: map[string]bool{}}
		if e.rnd.IntN(2) == 0 {
			o.receiver.query = fmt.Sprint("?", n) // else the same destination as others
		}
		o.receiver.answer = o.receiver.decide
		e.outputs = append(e.outputs, o)
	}
	return e
}

// isPoison says whether the webhook never takes the event.
func isPoison(event string) bool { return strings.Contains(event, "poison") }

func (u *unsteady) decide(ctx context.Context, n int, items []string) error {
	u.mu.Lock()
	steady, life := u.steady, u.life
	u.pending[n] = items
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.pending, n)
		u.mu.Unlock()
	}()
	select {
	case <-time.After(time.Duration(1+n*37%900) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	u.mu.Lock()
	killed := u.dead || life != u.life
	u.mu.Unlock()
	switch {
	case killed, !steady && (uint64(n)*2654435761+u.seed)>>4%3 == 0:
		return errors.New("connection refused")
	case slices.ContainsFunc(items, isPoison):
		return status(400)
	}
	return nil
}

// folder is State_Dir, which all outputs share, or one that is an output's own.
func (e *engine) folder(kind string) string {
	return filepath.Join(e.dir, fmt.Sprint(e.life), kind)
}

func (o *output) dead() string { return o.e.folder(fmt.Sprint("dead", o.n)) }

// start starts all outputs, in a process that is there or a new one.
func (e *engine) start() {
	if e.process == nil {
		e.process = &Process{Version: "test", Log: &logBuffer{}}
	}
	size := 1 + e.rnd.IntN(8)
	keys := []string{"Mode", string(e.mode), "State_Dir", e.folder("state"),
		"Batch_Max_Size", strconv.Itoa(size), "Batch_Max_Bytes", strconv.Itoa(1024 + e.rnd.IntN(2000)), "Batch_Max_Wait", "10ms",
		"Batch_Buffer_Size", strconv.Itoa(size + 20 + e.rnd.IntN(30)), "Max_Concurrent_Requests", strconv.Itoa(1 + e.rnd.IntN(3)),
		"Initial_Backoff", "500ms", "Max_Backoff", "2s", "Flush_Timeout", "1s", "Drain_Timeout", []string{"0", "1s", "10s"}[e.rnd.IntN(3)]}
	for _, o := range e.outputs {
		o.in = startedWith(e.T, e.process, o.receiver, func(c *Config) { c.DuplicateWindow = e.window }, append(keys[:len(keys):len(keys)], "Dead_Letter_Dir", o.dead())...)
	}
}

// write makes a chunk of new events, and some that were read before.
func (e *engine) write() {
	var events []string
	for range 1 + e.rnd.IntN(40) {
		text := event(e.events)
		switch e.rnd.IntN(80) {
		case 0:
			text = strings.TrimSuffix(text, "}") + `,"x":"poison"}`
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
			text = strings.TrimSuffix(text, "}") + `,"x":"` + strings.Repeat("x", e.rnd.IntN(1500)) + `"}`
		}
		events = append(events, text)
		e.events++
	}
	for _, o := range e.outputs {
		mine := events
		if len(o.waiting) > 0 && e.rnd.IntN(2) == 0 {
			again := o.waiting[e.rnd.IntN(len(o.waiting))] // a rotated file that is read twice
			mine = append(slices.Clone(again[len(again)/2:]), mine...)
		}
		if e.rnd.IntN(5) == 0 {
			mine = append(mine, mine[0]) // a post that came twice
		}
		for _, text := range mine {
			o.all[text] = true
		}
		o.waiting = append(o.waiting, mine)
	}
}

// flush hands one chunk to an output.
func (o *output) flush() {
	if len(o.waiting) == 0 {
		return
	}
	i := o.e.rnd.IntN(len(o.waiting))
	events := o.waiting[i]
	o.unread = nil // read before the next chunk is handed over
	switch flush(o.in, chunk(events...)) {
	case Error:
		o.e.Fatal("a chunk is dropped")
	case OK:
		if missing := o.receiver.missing(events); o.e.mode == ModeBlocking && len(missing) > 0 {
			rejected := content(o.e.T, o.dead(), "rejected*.log")
			for _, text := range missing {
				if !slices.Contains(rejected, text) {
					o.e.Fatalf("a chunk is done though %s is neither accepted nor set aside", text)
				}
			}
		}
		o.waiting = slices.Delete(o.waiting, i, i+1)
		o.unread = events
	}
}

// missing are those of events that were not accepted.
func (r *receiver) missing(events []string) (missing []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range events {
		if !slices.Contains(r.items, text) {
			missing = append(missing, text)
		}
	}
	return missing
}

// forgetAnswers has some chunks come again whose answer nobody has read.
func (e *engine) forgetAnswers() {
	for _, o := range e.outputs {
		if o.unread != nil && e.rnd.IntN(2) == 0 {
			o.waiting = append(o.waiting, o.unread)
		}
		o.unread = nil
	}
}

func (e *engine) exit(reload bool) {
	for _, o := range e.outputs {
		e.process.PreExit(reload)
		o.in.Exit()
	}
	e.forgetAnswers()
	if !reload {
		e.process = nil
	}
}

// kill ends the process as kill -9 does: what is on the disk in this moment is all that
// is left, and the webhook may have stored what was under way.
func (e *engine) kill() {
	synctest.Wait()
	before := e.folder("")
	e.life++
	if err := os.CopyFS(e.folder(""), os.DirFS(before)); err != nil {
		e.Fatal(err)
	}
	for _, o := range e.outputs {
		if err := errors.Join(os.Chmod(e.folder("state"), 0o700), os.Chmod(o.dead(), 0o700)); err != nil {
			e.Fatal(err)
		}
	}
	for _, o := range e.outputs {
		u := o.receiver
		u.mu.Lock()
		u.life++
		u.dead = true
		for _, items := range u.pending {
			if e.rnd.IntN(2) == 0 && !slices.ContainsFunc(items, isPoison) {
				u.items = append(u.items, items...)
				for _, text := range items {
					o.mayRepeat[text] = true
				}
			}
		}
		u.mu.Unlock()
		if e.mode == ModeBatch {
			kept := content(e.T, o.dead(), "undelivered-*.log")
			for _, text := range u.missing(slices.Collect(maps.Keys(o.all))) {
				if !slices.ContainsFunc(o.waiting, func(c []string) bool { return slices.Contains(c, text) }) && !slices.Contains(kept, text) {
					o.mayLose[text] = true // it was in the buffer
				}
			}
		}
	}
	// What is left of it in this process does nothing any more: all of its requests fail.
	var ends sync.WaitGroup
	for _, o := range e.outputs {
		ends.Go(o.in.Exit)
	}
	ends.Wait()
	for _, o := range e.outputs {
		o.receiver.mu.Lock()
		o.receiver.dead = false
		o.receiver.mu.Unlock()
	}
	e.forgetAnswers()
	e.process = nil
}

func (e *engine) run() {
	e.start()
	steps := 60 + e.rnd.IntN(60)
	for range steps {
		switch e.rnd.IntN(14) {
		case 0, 1:
			e.write()
		case 2:
			e.exit(false)
			e.start()
		case 3:
			e.exit(true)
			e.start()
		case 4:
			e.kill()
			e.start()
		default:
			e.outputs[e.rnd.IntN(len(e.outputs))].flush()
		}
		time.Sleep(time.Duration(e.rnd.IntN(1500)) * time.Millisecond)
	}
	// In the end the webhook is well, others come, and nothing may be left anywhere.
	for _, o := range e.outputs {
		o.receiver.mu.Lock()
		o.receiver.steady = true
		o.receiver.mu.Unlock()
	}
	filler := 50_000
	for i := 0; ; i++ {
		if i > 3000 {
			for _, o := range e.outputs {
				done, inFlight := o.in.ledger.Count()
				e.Errorf("output %d: %d chunks wait, %d events done, %d in flight, %+v", o.n, len(o.waiting), done, inFlight, o.in.backend.Stats())
			}
			e.Errorf("it does not come to an end:\n%s", e.process.Log)
			break
		}
		left := 0
		for _, o := range e.outputs {
			left += len(o.waiting)
			o.flush()
			flush(o.in, chunk(event(filler)))
			filler++
		}
		if left == 0 && e.isEverythingDone() {
			break
		}
		time.Sleep(time.Second)
	}
	time.Sleep(10 * time.Second)
	for i := 0; i < 100 && e.inFlight() > 0; i++ { // what was set aside once comes again
		for _, o := range e.outputs {
			flush(o.in, chunk(event(filler)))
			filler++
		}
		time.Sleep(10 * time.Second)
	}
	for _, o := range e.outputs {
		if _, inFlight := o.in.ledger.Count(); inFlight != 0 {
			e.Errorf("output %d: %d events are still in flight", o.n, inFlight)
		}
		if left := content(e.T, o.dead(), "undelivered-*.log"); len(left) > 0 {
			e.Errorf("output %d: %d events are still kept as undelivered", o.n, len(left))
		}
	}
	e.exit(false)
	e.verify()
}

func (e *engine) inFlight() (n int) {
	for _, o := range e.outputs {
		_, inFlight := o.in.ledger.Count()
		n += inFlight
	}
	return n
}

// isEverythingDone says whether every event was accepted, set aside, or lost as it may be.
func (e *engine) isEverythingDone() bool {
	for _, o := range e.outputs {
		rejected := content(e.T, o.dead(), "rejected*.log")
		for _, text := range o.receiver.missing(slices.Collect(maps.Keys(o.all))) {
			if !o.mayLose[text] && !slices.Contains(rejected, text) {
				return false
			}
		}
	}
	return true
}

func (e *engine) verify() {
	for _, o := range e.outputs {
		rejected := content(e.T, o.dead(), "rejected*.log")
		counts := map[string]int{}
		for _, text := range o.receiver.items {
			counts[text]++
		}
		for text := range o.all {
			n := counts[text]
			if isPoison(text) {
				if n > 0 || !slices.Contains(rejected, text) && !o.mayLose[text] {
					e.Errorf("output %d: an event that is never taken was accepted %d times, or is not set aside", o.n, n)
				}
				continue
			}
			if n == 0 && !o.mayLose[text] {
				e.Errorf("output %d: lost: %.100s", o.n, text)
			}
			if n > 1 && !o.mayRepeat[text] && !e.small {
				e.Errorf("output %d: %d times: %.100s", o.n, n, text)
			}
		}
	}
}
