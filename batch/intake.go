// This file is the way in: the asynchronous and the acknowledged intake, the
// bounds of the buffer, and waiting for room.

package batch

import (
	"context"
	"time"
)

// NewEvents returns an empty run of events with room for a full batch. It goes
// back with Release, or belongs to the backend once taken.
func (b *Backend) NewEvents() *Events { return b.pool.get() }

// Release gives back a run of events that was not taken.
func (b *Backend) Release(ev *Events) { b.pool.put(ev) }

// Limits is how many events, and how many bytes of body, a run should have at
// most to be sent as one batch; while the gate is closed, as one probe. A single event may
// exceed the bytes.
func (b *Backend) Limits() (events, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Suspects may have half of the buffer.
	events, bytes = min(b.cfg.MaxSize, max(1, b.cfg.BufferSize/2)), min(b.cfg.MaxBytes, b.cfg.BufferBytes/2)
	if b.gate.closed && b.gate.probeSize > 0 {
		bytes = min(bytes, b.gate.probeSize)
	}
	return events, bytes
}

// WantsProbe says whether the gate is closed and the next probe is to be of fresh events,
// or there is nothing else to probe with: then one more run of events is taken all the
// same.
func (b *Backend) WantsProbe() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wantsProbeLocked()
}

func (b *Backend) wantsProbeLocked() bool {
	g := &b.gate
	if !g.closed || g.probing || b.queue.fresh.events > 0 {
		return false
	}
	oldest := b.queue.leastRecent(false)
	return oldest == nil || oldest.suspect || g.probes%2 == 1
}

// ProcessEvents takes all events of ev, or none. It waits for room in the
// buffer until ctx is done; with a context that is done already it does not
// wait. Not while the webhook is down, and not for long while it is slow. Nil
// means that the events are in the buffer and ev belongs to the backend; they
// are sent together with others that arrive within Config.MaxWait. Otherwise
// the error is ErrStopped, ErrFull, ErrDown or ErrSlow, nothing was taken, and
// ev is still the caller's.
func (b *Backend) ProcessEvents(ctx context.Context, ev *Events) error {
	return b.take(ctx, ev, nil)
}

// Delivery is a number of events whose fate its owner wants to know. Its
// methods may be called from any goroutine.
type Delivery struct {
	backend *Backend
	done    chan struct{}

	// Guarded by backend.mu.
	pending  int
	suspects int           // of them, those in batches that were refused for their own fault
	allStuck chan struct{} // what Stuck returned last; nil while nobody asked
	ended    bool
	result   Result
}

// Result is what became of the events of a Delivery.
type Result struct {
	Accepted int // by the receiver
	Rejected int // set aside: refused for good
	GivenUp  int // unsettled when the drain time was over, or handed back: see Observer.GivenUp
}

// NewDelivery starts an acknowledged intake.
func (b *Backend) NewDelivery() *Delivery {
	return &Delivery{backend: b, done: make(chan struct{})}
}

// Add takes all events of ev, or none, as ProcessEvents does, but sends them at
// once: what is added is cut into batches of its own. It must not be called
// after End.
func (d *Delivery) Add(ctx context.Context, ev *Events) error {
	return d.backend.take(ctx, ev, d)
}

// End says that no more events follow. It may be called more than once.
func (d *Delivery) End() {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	d.ended = true
	d.closeIfDoneLocked()
}

// Done is closed when End was called and every event is settled.
func (d *Delivery) Done() <-chan struct{} { return d.done }

// Stuck returns a channel that is closed once every event that is not settled is
// in a batch that was refused for what seems its own fault: waiting longer would
// be waiting for a back-off, while others could go on. Ask again after more
// events were added.
func (d *Delivery) Stuck() <-chan struct{} {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	stuck := make(chan struct{})
	d.allStuck = stuck
	d.stuckIfSoLocked()
	return stuck
}

func (d *Delivery) stuckIfSoLocked() {
	if d.allStuck != nil && d.pending > 0 && d.suspects == d.pending {
		close(d.allStuck)
		d.allStuck = nil
	}
}

// settledLocked notes what became of n events.
func (d *Delivery) settledLocked(n int, o outcome) {
	d.pending -= n
	switch o {
	case accepted:
		d.result.Accepted += n
	case rejected:
		d.result.Rejected += n
	case returned, givenUp:
		d.result.GivenUp += n
	}
	d.closeIfDoneLocked()
	d.stuckIfSoLocked()
}

// Result is what became of the events so far; final once Done is closed.
func (d *Delivery) Result() Result {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	return d.result
}

// Pending is how many events were taken and are not settled.
func (d *Delivery) Pending() int {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	return d.pending
}

func (d *Delivery) closeIfDoneLocked() {
	if !d.ended || d.pending > 0 {
		return
	}
	select {
	case <-d.done:
	default:
		close(d.done)
	}
}

// take is both intakes. Order of the checks: a stop beats everything; a webhook
// that is down takes only what its probes need, whatever the room.
func (b *Backend) take(ctx context.Context, ev *Events, owner *Delivery) error {
	if ev.Len() == 0 {
		b.Release(ev)
		return nil
	}
	b.mu.Lock()
	for {
		switch {
		case b.stopped:
			b.unlock()
			return ErrStopped
		case b.gate.closed && !b.wantsProbeLocked():
			b.unlock()
			return ErrDown
		case b.hasRoomLocked(ev):
			b.enqueueLocked(ev, owner)
			b.dispatchLocked()
			b.compactLastLocked()
			b.unlock()
			return nil
		case b.gate.closed:
			b.unlock()
			return ErrDown
		case b.gate.slow > 0:
			b.unlock()
			return ErrSlow
		}
		if b.spaceFreed == nil {
			b.spaceFreed = make(chan struct{})
		}
		room, changed := b.spaceFreed, b.healthChanged
		b.unlock()
		select {
		case <-room:
		case <-changed:
		case <-ctx.Done():
			return ErrFull
		}
		b.mu.Lock()
	}
}

// Adopt takes asynchronous events that another backend gave up, in the order of the
// calls, whatever the room: they were within that one's bounds. To be called before Run;
// ev belongs to the backend.
func (b *Backend) Adopt(ev *Events) {
	b.mu.Lock()
	defer b.unlock()
	b.enqueueLocked(ev, nil)
	b.compactLastLocked()
}

// hasRoomLocked says whether ev fits into the buffer. Half of it is for those that are no
// suspects, in any case: suspects hold more than the other half only while it is not certain
// enough that nobody misses them, and never more than a whole one. What is larger than the
// buffer fits when nothing is there but suspects.
func (b *Backend) hasRoomLocked(ev *Events) bool {
	events, bytes := int(b.stats.Pending), b.pendingBytes
	otherEvents, otherBytes := events-b.suspects.events, bytes-b.suspects.bytes
	n, size := ev.Len(), ev.Size()-bodyOverhead
	fits := func(events, bytes, part int) bool {
		return events+n <= b.cfg.BufferSize/part && bytes+size <= b.cfg.BufferBytes/part
	}
	return otherEvents == 0 || fits(events, bytes, 1) ||
		b.suspects.events <= b.cfg.BufferSize && b.suspects.bytes <= b.cfg.BufferBytes && fits(otherEvents, otherBytes, 2)
}

// enqueueLocked takes events. Those that have been here before and went back are suspects
// still, and wait until they are due; the rest is fresh.
func (b *Backend) enqueueLocked(ev *Events, owner *Delivery) {
	v := view{&run{events: ev, owner: owner, views: 1}, 0, ev.Len()}
	n := uint64(v.len())
	b.stats.Taken += n
	b.stats.Pending += n
	b.pendingBytes += v.bytes()
	b.held += cap(ev.buf)
	if owner != nil {
		owner.pending += v.len()
	}
	now := time.Now()
	if !b.known.isEmpty() {
		var suspects bool
		if v, suspects = b.recallLocked(v, now); suspects {
			b.makeRoomLocked(now)
		}
		if v.len() == 0 {
			return
		}
	}
	if owner == nil && b.joinLastLocked(v) {
		return
	}
	b.queue.fresh.add(v, owner != nil, now)
}

// recallLocked takes the events out of v that have gone back before, and returns what is
// behind the last of them; what is before it is fresh.
func (b *Backend) recallLocked(v view, now time.Time) (rest view, found bool) {
	for i := 0; i < v.len(); i++ {
		k, ok := b.known.recall(v.ids()[i])
		if !ok {
			continue
		}
		found = true
		if i > 0 {
			var before view
			before, v = v.cut(i)
			b.queue.fresh.add(before, before.run.owner != nil, now)
		}
		one := v
		if v.len() > 1 {
			one, v = v.cut(1)
		} else {
			v.from = v.to
		}
		p := b.newBatchLocked([]view{one})
		b.replaceLocked(p, []view{one.detached()})
		p.evidence, p.due, p.firstFailed, p.took, p.cause = k.evidence, k.due, k.firstFailed, k.took, k.cause
		b.suspectLocked(p)
		b.queue.add(p, now)
		i = -1
	}
	return v, found
}

// joinLastLocked puts a small run of asynchronous events into the one before it, so that
// many of them do not each hold a slice of their own.
func (b *Backend) joinLastLocked(v view) bool {
	last := b.queue.fresh.last()
	if last == nil || last.run.owner != nil || !last.isWhole() || !v.isWhole() ||
		last.len()+v.len() > b.cfg.MaxSize || bodyOverhead+last.bytes()+v.bytes() > b.cfg.MaxBytes {
		return false
	}
	into := last.run.events
	before := cap(into.buf)
	v.appendTo(into)
	b.held += cap(into.buf) - before
	b.queue.fresh.grew(v.len(), v.bytes())
	b.dropViewLocked(v)
	return true
}

// compactLastLocked moves the events that came last to memory of their own size if they
// have to wait and fill only a small part of what they came in.
func (b *Backend) compactLastLocked() {
	last := b.queue.fresh.last()
	if last == nil || !last.isWhole() || cap(last.run.events.buf) < b.pool.capacity {
		return
	}
	worth := 2
	if last.run.owner == nil {
		worth = 8 // others may join it
	}
	if worth*last.bytes() < b.pool.capacity {
		v := last.detached()
		b.held += cap(v.run.events.buf)
		b.dropViewLocked(last.view)
		last.view = v
	}
}

// wakeWaitersLocked lets those that wait for room look again.
func (b *Backend) wakeWaitersLocked() {
	if b.spaceFreed != nil {
		close(b.spaceFreed)
		b.spaceFreed = nil
	}
}
