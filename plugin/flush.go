// This file decides what to answer for a chunk.

package plugin

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/minio/highwayhash"

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
// blocking OK means that every event was accepted; in mode batch that every
// event is in the buffer. It blocks for Flush_Timeout at most, on the engine's
// thread for a second, and not at all while the webhook is down. After Retry
// the delivery goes on, and the chunk finds it when it comes back. Several
// goroutines may call. The chunk is not referred to after the return.
func (in *Instance) Flush(chunk []byte, tag string) (answer Answer) {
	defer func() {
		if v := recover(); v != nil {
			answer = in.flushPanicked(chunk, tag, v, debug.Stack())
		}
	}()
	in.counts.chunks.Add(1)
	if in.exiting.Load() {
		return Retry
	}
	if in.flushing.Add(1) == 1 {
		in.claims.answersRead() // before it hands over the next chunk
	}
	defer in.flushing.Add(-1)
	answer = in.deliver(chunk, tag)
	switch {
	case answer == Retry:
		in.counts.retries.Add(1)
	case in.process.reloading.Load() || in.cfg.StateDir != "":
		in.claims.noteAnswered(tag, chunk)
	}
	return answer
}

func (in *Instance) deliver(chunk []byte, tag string) Answer {
	health, _ := in.backend.Health()
	if health == batch.Down && !in.backend.WantsProbe() {
		if _, finished := in.claims.any(tag, len(chunk)); !finished {
			return Retry
		}
	}
	d := in.claims.claim(tag, chunk)
	if d == nil {
		d = &delivery{}
	}
	if d.events == nil && !d.taken && in.cfg.Mode == ModeBlocking {
		d.events = in.backend.NewDelivery()
	}
	answered := false
	defer func() {
		// A panic must not lose track of what was taken already.
		if !answered && d.some {
			in.claims.remember(d, tag, chunk)
		}
	}()
	done := in.advance(d, tag, chunk)
	answered = true
	if done {
		return OK
	}
	if d.some || d.taken {
		in.claims.remember(d, tag, chunk)
	}
	return Retry
}

// advance takes what is left of the chunk and, in mode blocking, waits until
// it is settled. False means that the chunk has to come back.
func (in *Instance) advance(d *delivery, tag string, chunk []byte) bool {
	wait := in.cfg.FlushTimeout
	if onEngineThread() {
		wait = min(wait, engineWait)
		in.warnOfEngineThread()
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if !d.taken {
		if err := in.take(ctx, d, tag, chunk); err != nil {
			in.toldNotTaken(err)
			return false
		}
		if !d.some {
			in.repeats.tell(slog.LevelWarn, "no event", "a chunk held no audit event: is Match too wide, or Log_Key wrong?", "tag", tag, "bytes", len(chunk))
			return true
		}
	}
	if d.events == nil {
		return true // mode batch: it is in the buffer
	}
	return in.settled(ctx, d)
}

// settled waits until every event of the chunk is accepted. It ends early when
// ctx is done, when the webhook is slow or down, or when all that is open was
// refused for its own fault: the next chunk must not wait for that one's back-off.
func (in *Instance) settled(ctx context.Context, d *delivery) bool {
	stuck := d.events.Stuck()
	for {
		health, changed := in.backend.Health()
		select {
		case <-d.events.Done():
			return in.finished(d)
		default:
		}
		if health != batch.Healthy {
			return false
		}
		select {
		case <-d.events.Done():
			return in.finished(d)
		case <-stuck:
			return false
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// finished says whether a delivery that has settled is done. Events that were
// given up at the end of the drain time are still in the chunk.
func (in *Instance) finished(d *delivery) bool { return d.events.Result().GivenUp == 0 }

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

type panicKey struct {
	shape shape
	sum   [highwayhash.Size128]byte
}

// flushPanicked answers for a chunk whose flush panicked: RETRY, but not for
// ever for the same chunk.
func (in *Instance) flushPanicked(chunk []byte, tag string, v any, stack []byte) Answer {
	key := panicKey{shape{tag, len(chunk)}, in.claims.hash(chunk)}
	in.mu.Lock()
	if len(in.panics) > maxTags {
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
