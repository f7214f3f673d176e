// This file decides what to answer for a chunk.

package plugin

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"out_k8saudit/batch"
)

// Answer is what Fluent Bit does with a chunk. The values are its own
// (flb_engine_macros.h).
type Answer int

const (
	Error Answer = 0 // drop it
	OK    Answer = 1 // it is done
	Retry Answer = 2 // send it again, later, as a whole
)

// engineWait is how long a flush may wait on the engine's own thread, where it
// holds up every input and output.
const engineWait = time.Second

// Flush delivers a chunk and says what Fluent Bit is to do with it. In mode
// blocking OK means that every event is done; in mode batch that every event is
// done or in the buffer. It blocks for Flush_Timeout at most, on the engine's
// thread for a second, and not at all while the webhook is down. After Retry
// the delivery goes on: when the chunk comes back, what was accepted is done. Several
// goroutines may call. The chunk is not referred to after the return.
func (in *Instance) Flush(chunk []byte, tag string) (answer Answer) {
	defer func() {
		if v := recover(); v != nil {
			answer = in.flushPanicked(chunk, tag, v, debug.Stack())
		}
		in.noteAnswer(chunk, answer)
	}()
	in.counts.chunks.Add(1)
	if in.exiting.Load() {
		return Retry
	}
	return in.deliver(chunk, tag)
}

func (in *Instance) deliver(chunk []byte, tag string) Answer {
	if health, _ := in.backend.Health(); health == batch.Down && !in.backend.WantsProbe() {
		return Retry
	}
	wait := in.cfg.FlushTimeout
	if onEngineThread() {
		wait = min(wait, engineWait)
		in.warnOfEngineThread()
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var d *batch.Delivery
	if in.cfg.Mode == ModeBlocking {
		d = in.backend.NewDelivery()
	}
	w := in.walks.Get().(*walk)
	defer func() {
		w.end()
		in.walks.Put(w)
	}()
	others, start := in.reading.begin()
	err := w.read(ctx, chunk, tag, d)
	overlapped := in.reading.end(others, start)
	if err != nil {
		in.toldNotTaken(err)
		return Retry
	}
	switch {
	case w.added == 0:
		in.repeats.tell(slog.LevelWarn, "no event", "a chunk held no audit event: is Match too wide, or Log_Key wrong?", "tag", tag, "bytes", len(chunk))
		return OK
	case d == nil && len(w.inFlight) > 0 && (overlapped || in.exiting.Load()):
		// What is in flight may be another flush's that finds no room and gives it back,
		// or the ledger is closed and calls everything so.
		return Retry
	case d == nil:
		return OK // mode batch: what is in flight is in the buffer, or in a file
	}
	d.End()
	// Where nothing is new, nobody needs to wait for what is in flight. What is equal
	// within the chunk, or was somebody else's, may be done when its own are.
	if w.submitted > 0 && !in.settled(ctx, d) || !in.ledger.AllDone(w.inFlight) {
		return Retry
	}
	return OK
}

// settled waits until every event of the chunk is accepted. It ends early when
// ctx is done, when the webhook is slow or down, or when all that is open was
// refused for its own fault: the next chunk must not wait for that one's back-off.
func (in *Instance) settled(ctx context.Context, d *batch.Delivery) bool {
	stuck := d.Stuck()
	for {
		health, changed := in.backend.Health()
		select {
		case <-d.Done():
			return d.Result().GivenUp == 0 // what was given up is still in the chunk
		default:
		}
		if health != batch.Healthy {
			return false
		}
		select {
		case <-d.Done():
			return d.Result().GivenUp == 0 // what was given up is still in the chunk
		case <-stuck:
			return false
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (in *Instance) toldNotTaken(err error) {
	switch {
	case errors.Is(err, batch.ErrFull), errors.Is(err, batch.ErrSlow):
		in.repeats.tell(slog.LevelWarn, "full", "the buffer is full: the webhook takes events more slowly than they come; Fluent Bit keeps the chunks", "reason", err)
	default:
		in.log.Debug("a chunk was not taken", "reason", err)
	}
}

func (in *Instance) warnOfEngineThread() {
	if in.cfg.Mode != ModeBlocking {
		return
	}
	in.warnEngine.Do(func() {
		in.log.Warn("flushes run on Fluent Bit's engine thread and may hold it up for a second each: set Workers 1 in this [OUTPUT] section")
	})
}

// maxPanics is how often the same chunk may panic before it is given up.
const maxPanics = 10

// maxPanicked bounds the chunks whose panics are counted.
const maxPanicked = 4096

// flushPanicked answers for a chunk whose flush panicked: RETRY, but not for
// ever for the same chunk.
func (in *Instance) flushPanicked(chunk []byte, tag string, v any, stack []byte) Answer {
	key := in.ledger.Identify(chunk)
	in.mu.Lock()
	if len(in.panics) > maxPanicked {
		clear(in.panics)
	}
	in.panics[key]++
	n := in.panics[key]
	in.mu.Unlock()
	if n >= maxPanics {
		in.log.Error("a flush panicked again and again, the chunk is dropped; please report this", "panic", v, "times", n, "tag", tag, "bytes", len(chunk), "stack", string(stack))
		return Error
	}
	in.log.Error("a flush panicked, the chunk is tried again; please report this", "panic", v, "tag", tag, "bytes", len(chunk), "stack", string(stack))
	return Retry
}
