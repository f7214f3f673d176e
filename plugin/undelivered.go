// This file is the events that are in no chunk any more: those that mode batch could
// not deliver in time are kept in Dead_Letter_Dir, or named as lost, and sent at the next
// start.

package plugin

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"out_k8saudit/batch"
	"out_k8saudit/plugin/deadletter"
	"out_k8saudit/plugin/ledger"
)

// gaveUp is told of events that left the backend undelivered: at the end of the drain time, or
// before it to make room. Those with an owner are still in a chunk or a file, and are new when
// they come again.
func (in *Instance) gaveUp(ev *batch.Events, owner *batch.Delivery) {
	if owner != nil {
		in.ledger.Release(ev.IDs())
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.undelivered = append(in.undelivered, ev)
}

// keepUndelivered keeps events that are in no chunk any more for the next start,
// and names those that could not be kept. It blocks on the disk.
func (in *Instance) keepUndelivered(runs []*batch.Events) {
	if len(runs) == 0 {
		return
	}
	kept := 0
	if in.dead != nil {
		var err error
		if kept, err = in.dead.Keep(in.id, eventsOf(runs)); err != nil {
			in.log.Error("undelivered events cannot be written to Dead_Letter_Dir", "error", err)
		}
		if kept > 0 {
			in.log.Warn("undelivered events are kept in Dead_Letter_Dir, and sent at the next start", "events", kept)
		}
	}
	for _, ev := range runs {
		n := min(kept, ev.Len())
		kept -= n
		in.ledger.Done(ev.IDs()[:n]) // from here on the file has them: see identifyLine
		for i := n; i < ev.Len(); i++ {
			in.log.Error("an event is lost: Drain_Timeout is over", "event", eventID(ev.Event(i)), "bytes", len(ev.Event(i)))
		}
		in.ledger.Release(ev.IDs()[n:])
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

// identifyLine is the identity of an event in a file: its place there, since the file
// never changes. Its bytes would not do: two events may have become the same when they
// were truncated, or lost a timestamp.
func (in *Instance) identifyLine(file string, line int) ledger.ID {
	return in.ledger.Identify(fmt.Appendf(nil, "%s %d", file, line))
}

// filesAtOnce is how many files of undelivered events are sent at the same time.
const filesAtOnce = 4

// sendUndelivered sends what earlier processes have kept for this output, until the
// intake ends. It does not wait; in.sending is what it does.
func (in *Instance) sendUndelivered() {
	names, err := in.dead.Undelivered(in.id)
	if err != nil {
		in.log.Error("undelivered events in Dead_Letter_Dir are not taken up", "error", err)
	}
	if len(names) == 0 {
		return
	}
	in.sending.Go(func() {
		var files sync.WaitGroup
		defer files.Wait()
		free := make(chan struct{}, filesAtOnce)
		for _, name := range names {
			select {
			case free <- struct{}{}:
			case <-in.stop:
				return
			}
			files.Go(func() {
				defer func() { <-free }()
				if err := in.sendFile(name); err != nil {
					in.log.Error("undelivered events in Dead_Letter_Dir are not sent: they stay there for the next start", "file", name, "error", err)
				}
			})
		}
	})
}

// fileInterval is how soon a file is read again of which events are somebody else's.
const fileInterval = time.Second

// sendFile sends the events of a file that are not done, and removes it when all are. It
// returns nil too when the intake ends before.
func (in *Instance) sendFile(name string) error {
	for {
		taken, err := in.dead.TakeUp(name)
		if taken == nil {
			return err
		}
		sent, err := in.sendOnce(name, taken)
		if err == nil && sent {
			if n := taken.Unreadable(); n > 0 {
				in.log.Warn("lines of undelivered events in Dead_Letter_Dir could not be read", "file", name, "lines", n)
			}
			in.log.Info("undelivered events were sent from Dead_Letter_Dir", "file", name)
			return taken.Remove()
		}
		taken.Close()
		if err != nil {
			return err
		}
		select {
		case <-in.stop:
			return nil
		case <-time.After(fileInterval):
		}
	}
}

// sendOnce reads a file once, and says whether everything in it is done then.
func (in *Instance) sendOnce(name string, taken *deadletter.Taken) (sent bool, err error) {
	d := in.backend.NewDelivery()
	g := &runs{in: in, enqueue: func(run *batch.Events) error { return in.addPatiently(d, run) }}
	g.begin()
	defer g.end()
	for line := 0; ; line++ {
		event, err := taken.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, fmt.Errorf("reading: %w", err)
		}
		if g.add(append(g.run.Begin(), event...), in.identifyLine(name, line), 0) != nil {
			return false, nil // the intake has ended
		}
	}
	if g.finish() != nil {
		return false, nil
	}
	d.End()
	<-d.Done() // at the end of the drain time at the latest
	return d.Result().GivenUp == 0 && in.ledger.AllDone(g.inFlight), nil
}

// addPatiently waits for room as long as the intake is open.
func (in *Instance) addPatiently(d *batch.Delivery, run *batch.Events) error {
	for {
		_, changed := in.backend.Health()
		ctx, cancel := context.WithTimeout(context.Background(), in.cfg.FlushTimeout)
		err := d.Add(ctx, run)
		if err == nil {
			cancel()
			return nil
		}
		select {
		case <-in.stop:
			cancel()
			return err
		case <-changed:
		case <-ctx.Done():
		}
		cancel()
	}
}

// givenUpText says in one line where the events are that were given up.
func (in *Instance) givenUpText() (slog.Level, string) {
	const begin = "stopped at the end of Drain_Timeout: what was given up "
	switch {
	case len(in.undelivered) == 0:
		return slog.LevelWarn, begin + "is in chunks that Fluent Bit still has and sends again"
	case in.dead != nil:
		return slog.LevelWarn, begin + "goes to Dead_Letter_Dir, to be sent at the next start"
	case in.process.leaving.Load():
		return slog.LevelWarn, begin + "goes to the output that follows with the same Instance or destination"
	}
	return slog.LevelError, begin + "is lost; set Dead_Letter_Dir, raise Drain_Timeout, or use Mode blocking"
}
