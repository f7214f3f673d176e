// This file reads a chunk, always from its start: the ledger knows which of its events
// were dealt with before.

package plugin

import (
	"context"
	"sync"

	"out_k8saudit/batch"
	"out_k8saudit/plugin/ledger"
	"out_k8saudit/plugin/record"
)

// walk is what a flush needs to read a chunk. It is kept for the next one.
type walk struct {
	runs
	reader *record.Reader
	skips  skipLog
}

func (in *Instance) newWalk() *walk {
	w := &walk{runs: runs{in: in}, reader: record.NewReader(&record.Options{LogKey: in.cfg.LogKey, RestoreTimestamp: in.cfg.RestoreTimestamp})}
	w.skips.in = in
	w.reader.OnSkip = w.skips.add
	return w
}

// read reads the events of the chunk and submits those that are new to the backend, with
// to or, in mode batch, without, waiting for room until ctx is done. It returns nil when
// the last one was submitted, otherwise the backend's error; then the rest is new when
// the chunk comes back. end has to be called whatever happens.
func (w *walk) read(ctx context.Context, chunk []byte, tag string, to *batch.Delivery) error {
	w.enqueue = func(run *batch.Events) error {
		if to != nil {
			return to.Add(ctx, run)
		}
		return w.in.backend.ProcessEvents(ctx, run)
	}
	w.skips.begin(chunk, tag)
	w.reader.Reset(chunk, w.in.timesOf(tag))
	w.begin()
	for {
		begin := w.run.Begin()
		buf, ok, full := w.reader.NextWithin(begin, w.run.Len() == 0)
		var err error
		switch {
		case full:
			err = w.makeRoom()
		case !ok:
			return w.finish()
		default:
			event := buf[len(begin):]
			last := w.reader.Last()
			id, r := w.in.identify(event, last), repairOf(last)
			if w.in.cfg.Truncate {
				if smaller, ok := w.in.truncated(event); ok {
					buf = append(begin, smaller...)
					r |= truncatedBefore
				}
			}
			err = w.add(buf, id, r)
		}
		if err != nil {
			return err
		}
	}
}

// end gives back what was not submitted, and forgets the chunk, which is Fluent Bit's.
func (w *walk) end() {
	w.runs.end()
	w.enqueue = nil
	w.skips.begin(nil, "")
	w.reader.Reset(nil, nil)
}

// identify is the identity of an event as it was read. Its own JSON says it, without
// the brace that ends each of them and without a timestamp that was put back, since that
// depends on what else was read. If bytes were replaced it is what stood there, and if the
// parser may have taken a timestamp, the record's time tells the event from others.
func (in *Instance) identify(event []byte, last record.Event) ledger.ID {
	text := last.Source
	if text == nil {
		text = event[:len(event)-1-last.Restored]
	}
	id := in.ledger.Identify(text)
	id[0] ^= last.Time // one who does not know the key cannot make it meet another one's
	return id
}

func repairOf(e record.Event) (r repair) {
	if e.Source != nil {
		r |= replacedUTF8
	}
	if e.Restored > 0 {
		r |= timestampRestored
	}
	if e.LeftOut {
		r |= timestampLeftOut
	}
	return r
}

// overlap tells whether chunks were read at the same time, which only a host does that
// ignores FLB_OUTPUT_SYNCHRONOUS. It is safe for concurrent use.
type overlap struct {
	mu     sync.Mutex
	active int
	starts int
}

// begin returns what end wants.
func (o *overlap) begin() (others, start int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.active++
	o.starts++
	return o.active - 1, o.starts
}

// end says whether others were read meanwhile.
func (o *overlap) end(others, start int) (overlapped bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.active--
	return others > 0 || o.starts != start
}
