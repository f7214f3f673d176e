// This file is what becomes of what cannot be delivered: files in Dead_Letter_Dir,
// or lines in the log that name it.

package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"out_k8saudit/batch"
	"out_k8saudit/plugin/deadletter"
	"out_k8saudit/plugin/record"
)

// openDeadLetters opens the folder, if there is to be one.
func (in *Instance) openDeadLetters() (err error) {
	if in.cfg.DeadLetterDir == "" {
		return nil
	}
	in.dead, err = deadletter.Open(in.cfg.DeadLetterDir, func(name string, bytes int64) {
		in.log.Warn("a file of Dead_Letter_Dir was removed to make room", "file", name, "bytes", bytes)
	})
	if err != nil {
		return fmt.Errorf("Dead_Letter_Dir %q: %w", in.cfg.DeadLetterDir, err)
	}
	return nil
}

// rejected keeps an event that is set aside, or says that it cannot. An auditor
// will ask for it, so it is named in the log in either case.
func (in *Instance) rejected(event []byte, err error) bool {
	to := "nowhere: set Dead_Letter_Dir to keep such events"
	if in.dead != nil {
		if failure := in.dead.Reject(event); failure != nil {
			in.repeats.tell(slog.LevelError, "reject", "an event that the webhook refuses for good cannot be written to Dead_Letter_Dir: it is tried again", "error", failure)
			return false
		}
		to = in.cfg.DeadLetterDir
	}
	in.log.Error("the webhook refuses this event for good: it is set aside and not sent again", "event", eventID(event), "bytes", len(event), "error", err, "kept_in", to)
	return true
}

// skipped keeps what was not understood.
func (in *Instance) skipped(s record.Skip, tag string) {
	if in.dead == nil {
		return
	}
	raw := s.Raw
	if s.Line != nil {
		raw = s.Line
	}
	if err := in.dead.Skip(deadletter.Skipped{Tag: tag, Reason: s.Reason.String(), Raw: raw}); err != nil {
		in.repeats.tell(slog.LevelError, "skip", "what was skipped cannot be written to Dead_Letter_Dir", "error", err)
	}
}

// keepUndelivered keeps events that are in no chunk any more for the next start,
// and names those that could not be kept.
func (in *Instance) keepUndelivered(runs []*batch.Events) {
	if len(runs) == 0 {
		return
	}
	kept := 0
	if in.dead != nil {
		var err error
		kept, err = in.dead.Keep(in.destinationID(), eventsOf(runs))
		if err != nil {
			in.log.Error("undelivered events cannot be written to Dead_Letter_Dir", "error", err)
		}
		in.log.Warn("undelivered events are kept in Dead_Letter_Dir, and sent at the next start", "events", kept)
	}
	for event := range eventsOf(runs) {
		if kept > 0 {
			kept--
			continue
		}
		in.log.Error("an event is lost: Drain_Timeout is over", "event", eventID(event), "bytes", len(event))
	}
}

func eventsOf(runs []*batch.Events) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, ev := range runs {
			for i := range ev.Len() {
				if !yield(ev.Event(i)) {
					return
				}
			}
		}
	}
}

// destinationID is what the files of undelivered events are named after.
func (in *Instance) destinationID() string {
	sum := sha256.Sum256([]byte(in.client.Destination()))
	return hex.EncodeToString(sum[:8])
}

// resumed is events that an instance before could not deliver, on their way from
// Dead_Letter_Dir.
type resumed struct {
	taken    *deadletter.Taken
	delivery *batch.Delivery
	next     *batch.Events // read and not taken by the backend
	readErr  error         // io.EOF when all were read
	over     sync.WaitGroup
	ended    bool
}

// resume starts to send what was kept for this destination. A failure is logged:
// the events stay where they are.
func (in *Instance) resume() {
	if in.dead == nil {
		return
	}
	taken, err := in.dead.TakeUp(in.destinationID())
	if err != nil {
		in.log.Error("undelivered events in Dead_Letter_Dir are not taken up", "error", err)
	}
	if taken == nil {
		return
	}
	r := &resumed{taken: taken, delivery: in.backend.NewDelivery()}
	in.resumed = r
	r.over.Go(func() {
		if in.feed(r) && in.settledOrStopped(r.delivery) {
			in.endResumed(r)
		}
	})
}

// feed gives the events to the backend as it takes them, and says whether it took
// all.
func (in *Instance) feed(r *resumed) bool {
	maxEvents, maxBytes := in.backend.Limits()
	for last := false; !last; {
		r.next = in.backend.NewEvents()
		for r.next.Len() < maxEvents && r.next.Size() < maxBytes {
			event, err := r.taken.Next()
			if err != nil {
				last, r.readErr = true, err
				break
			}
			r.next.Add(event)
		}
		for {
			_, changed := in.backend.Health()
			ctx, cancel := context.WithTimeout(context.Background(), in.cfg.FlushTimeout)
			err := r.delivery.Add(ctx, r.next)
			if err == nil {
				cancel()
				break
			}
			select {
			case <-in.stop:
				cancel()
				return false
			case <-changed:
			case <-ctx.Done():
			}
			cancel()
		}
		r.next = nil
	}
	r.delivery.End()
	return true
}

func (in *Instance) settledOrStopped(d *batch.Delivery) bool {
	select {
	case <-d.Done():
		return true
	case <-in.stop:
		return false
	}
}

// endResumed removes the files whose events were all settled. What was not, at the
// end, is kept anew. Nobody feeds any more.
func (in *Instance) endResumed(r *resumed) {
	r.ended = true
	in.mu.Lock()
	runs := in.undelivered[r.delivery]
	delete(in.undelivered, r.delivery)
	in.mu.Unlock()
	if r.next != nil {
		runs = append(runs, r.next)
	}
	rest := func(yield func([]byte) bool) {
		for event := range eventsOf(runs) {
			if !yield(event) {
				return
			}
		}
		for r.readErr == nil {
			event, err := r.taken.Next()
			if err != nil {
				r.readErr = err
				return
			}
			if !yield(event) {
				return
			}
		}
	}
	_, err := in.dead.Keep(in.destinationID(), rest)
	if err == nil {
		err = r.taken.Settled()
	}
	if err != nil {
		r.taken.Close()
		in.log.Error("events of Dead_Letter_Dir that were delivered could not be removed from it: they are sent again at the next start", "error", err)
	}
	if n := r.taken.Unreadable(); n > 0 {
		in.log.Warn("lines of undelivered events in Dead_Letter_Dir could not be read", "lines", n)
	}
	got := r.delivery.Result()
	in.log.Info("undelivered events were taken up from Dead_Letter_Dir", "accepted", got.Accepted, "rejected", got.Rejected, "kept_again", got.GivenUp)
}

// stopResumed ends what resume began. The backend has been shut down.
func (in *Instance) stopResumed() {
	r := in.resumed
	if r == nil {
		return
	}
	r.over.Wait()
	if !r.ended {
		in.endResumed(r)
	}
}

// lossText says in one line what giving up means in mode batch.
func (in *Instance) lossText() (slog.Level, string) {
	const begin = "stopped at the end of Drain_Timeout: what was given up is "
	if in.dead != nil {
		return slog.LevelWarn, begin + "kept in Dead_Letter_Dir and sent at the next start"
	}
	return slog.LevelError, begin + "lost; set Dead_Letter_Dir, raise Drain_Timeout, or use Mode blocking"
}
