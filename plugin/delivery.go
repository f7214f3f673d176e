// This file is the delivery of one chunk: which of its events were taken, and
// what became of them.

package plugin

import (
	"container/list"
	"context"
	"time"

	"github.com/minio/highwayhash"

	"out_k8saudit/batch"
	"out_k8saudit/plugin/record"
)

// delivery is one chunk on its way. A flush holds it, or it waits in claims for
// its chunk to come back; never both.
type delivery struct {
	events *batch.Delivery // nil in mode batch
	at     record.Position // the first event not yet taken
	index  int             // its number in the chunk, from 0
	taken  bool            // every event was
	some   bool            // at least one was
	todo   []span          // of the events, those that a process before left to do; nil: all

	// While claims have it, and guarded by them.
	shape  shape
	sum    [highwayhash.Size128]byte
	summed bool
	place  *list.Element

	expires time.Time // zero: never
}

// isExpired says whether the chunk must not claim it any more.
func (d *delivery) isExpired() bool {
	return !d.expires.IsZero() && !time.Now().Before(d.expires)
}

// isFinished says whether nothing is left to do for the chunk.
func (d *delivery) isFinished() bool {
	if !d.taken {
		return false
	}
	if d.events == nil {
		return true
	}
	select {
	case <-d.events.Done():
		return true
	default:
		return false
	}
}

// isIdle says whether none of its events is in flight.
func (d *delivery) isIdle() bool {
	return d.events == nil || d.events.Pending() == 0
}

// take reads the events of the chunk, from the first one not yet taken, and
// hands them to the backend in runs as large as a batch, waiting for room until
// ctx is done. It returns nil when the last one was taken, otherwise the
// backend's error; then what was not taken is read again from the same bytes
// when the chunk comes back.
func (in *Instance) take(ctx context.Context, d *delivery, tag string, chunk []byte) error {
	r := in.readers.Get().(*record.Reader)
	skips := &skipLog{in: in, tag: tag}
	r.OnSkip = skips.add
	r.Reset(chunk, d.at, in.timesOf(tag))
	defer func() {
		in.countWalk(r.Stats(), tag)
		r.OnSkip = nil
		r.Reset(nil, record.Position{}, nil) // forget the chunk: it is Fluent Bit's
		in.readers.Put(r)
	}()

	maxEvents, maxBytes := in.backend.Limits()
	ev := in.backend.NewEvents()
	defer func() {
		if ev != nil {
			in.backend.Release(ev)
		}
	}()
	ev.First = d.index
	d.at = r.Position() // of the first event in ev, as is d.index
	hand := func() error {
		err := in.hand(ctx, d, ev)
		if err != nil {
			d.at = d.at.CountedTo(r.Position())
		}
		return err
	}
	// next hands over what was read and begins a new run behind it and the events left out.
	next := func(leftOut int) error {
		n := ev.Len() + leftOut
		if err := hand(); err != nil {
			return err
		}
		ev, d.at, d.index = in.backend.NewEvents(), r.Position(), d.index+n
		ev.First = d.index
		return nil
	}
	for {
		begin := ev.Begin()
		buf, ok, full := r.NextWithin(begin, ev.Len() == 0)
		if full {
			if err := next(0); err != nil {
				return err
			}
			continue
		}
		if !ok {
			break
		}
		if in.cfg.Truncate {
			buf = in.truncated(buf, len(begin))
		}
		if d.todo != nil && !contains(d.todo, d.index+ev.Len()) {
			// It is not sent again, so what was read before it is a run of its own.
			if err := next(1); err != nil {
				return err
			}
			continue
		}
		ev.Commit(buf)
		switch {
		case ev.Len() > 1 && ev.Size() > maxBytes:
			// The last one is too much: it begins the next run.
			last := r.LastPosition()
			following := in.backend.NewEvents()
			ev.MoveLast(following)
			if err := hand(); err != nil {
				in.backend.Release(following)
				return err
			}
			ev, d.at, d.index = following, last, following.First
		case ev.Len() == maxEvents:
			if err := next(0); err != nil {
				return err
			}
		}
	}
	if err := hand(); err != nil {
		return err
	}
	ev = nil
	d.taken = true
	if d.events != nil {
		d.events.End()
	}
	return nil
}

// hand gives a run of events to the backend, which owns it if there is no error.
func (in *Instance) hand(ctx context.Context, d *delivery, ev *batch.Events) error {
	n := ev.Len()
	var err error
	if d.events != nil {
		err = d.events.Add(ctx, ev)
	} else {
		err = in.backend.ProcessEvents(ctx, ev)
	}
	if err == nil && n > 0 {
		d.some = true
	}
	return err
}
