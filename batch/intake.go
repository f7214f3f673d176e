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
// most to be sent as one batch. A single event may exceed the bytes.
func (b *Backend) Limits() (events, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(b.cfg.MaxSize, b.cfg.BufferSize), min(b.learned.bytes(b.cfg.MaxBytes), b.cfg.BufferBytes)
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
	pending int
	stuck   int           // of them, those in batches that wait for their own fault
	allOut  chan struct{} // what Stuck returned last; nil while nobody asked
	ended   bool
	result  Result
}

// Result is what became of the events of a Delivery.
type Result struct {
	Accepted int // by the receiver
	Rejected int // set aside: refused for good
	GivenUp  int // unsettled when the drain time was over
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
	d.ended = true
	d.closeIfDoneLocked()
	d.backend.mu.Unlock()
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
	d.allOut = stuck
	d.tellIfStuckLocked()
	return stuck
}

func (d *Delivery) tellIfStuckLocked() {
	if d.allOut != nil && d.pending > 0 && d.stuck == d.pending {
		close(d.allOut)
		d.allOut = nil
	}
}

// setStuckLocked marks p as waiting for its own fault, or as no longer so.
func (p *pendingBatch) setStuckLocked(is bool) {
	if p.isStuck == is {
		return
	}
	p.isStuck = is
	if d := p.owner; d != nil {
		if is {
			d.stuck += p.events.Len()
		} else {
			d.stuck -= p.events.Len()
		}
		d.tellIfStuckLocked()
	}
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
			b.mu.Unlock()
			return ErrStopped
		case b.health.state == Down && !b.wantsProbeLocked():
			b.mu.Unlock()
			return ErrDown
		case b.hasRoomLocked(ev):
			b.takeLocked(ev, owner)
			b.mu.Unlock()
			return nil
		case b.health.state == Down:
			b.mu.Unlock()
			return ErrDown
		case b.health.state == Slow:
			b.mu.Unlock()
			return ErrSlow
		}
		if b.room == nil {
			b.room = make(chan struct{})
		}
		room, news := b.room, b.news
		b.mu.Unlock()
		select {
		case <-room:
		case <-news:
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
	defer b.mu.Unlock()
	for ; ev.Len() > b.cfg.MaxSize; ev = ev.slice(b.cfg.MaxSize, ev.Len()) {
		b.takeLocked(ev.slice(0, b.cfg.MaxSize), nil)
	}
	b.takeLocked(ev, nil)
}

// hasRoomLocked says whether ev fits into the buffer. What is larger than the
// buffer fits when nothing else is there.
func (b *Backend) hasRoomLocked(ev *Events) bool {
	if b.stats.Pending == 0 {
		return true
	}
	return int(b.stats.Pending)+ev.Len() <= b.cfg.BufferSize && b.pendingBytes+ev.Size() <= b.cfg.BufferBytes
}

func (b *Backend) takeLocked(ev *Events, owner *Delivery) {
	b.stats.Taken += uint64(ev.Len())
	b.stats.Pending += uint64(ev.Len())
	b.pendingBytes += ev.Size()
	if owner != nil {
		owner.pending += ev.Len()
		// What came before goes first.
		b.cutOpenLocked()
		p := &pendingBatch{events: ev, owner: owner}
		b.enqueueLocked(p)
		b.dispatchLocked()
		if !p.underWay && p.events != nil {
			p.events = b.pool.compact(p.events)
		}
		return
	}
	b.joinOpenLocked(ev)
	b.dispatchLocked()
}

// joinOpenLocked puts asynchronous events into the open batch, and cuts it when
// it is full or when its time has come.
func (b *Backend) joinOpenLocked(ev *Events) {
	maxBytes := b.learned.bytes(b.cfg.MaxBytes)
	if b.open != nil {
		have := b.open.events
		if have.Len()+ev.Len() <= b.cfg.MaxSize && have.Size()+ev.Size()-len(listHead)-len(listTail)+len(",") <= maxBytes {
			before := have.Size()
			have.appendAll(ev)
			b.pendingBytes += have.Size() - before - ev.Size()
			b.Release(ev)
		} else {
			b.cutOpenLocked()
		}
	}
	if b.open == nil {
		b.open = &pendingBatch{events: ev}
		b.linger = time.AfterFunc(b.cfg.MaxWait, b.lingerOver(b.open))
	}
	if b.open.events.Len() >= b.cfg.MaxSize || b.open.events.Size() >= maxBytes {
		b.cutOpenLocked()
	}
}

// lingerOver returns what cuts the batch p when its time to wait is over, if it
// is still the open one.
func (b *Backend) lingerOver(p *pendingBatch) func() {
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.open == p {
			b.cutOpenLocked()
			b.dispatchLocked()
		}
	}
}

func (b *Backend) cutOpenLocked() {
	if b.open == nil {
		return
	}
	b.linger.Stop()
	b.enqueueLocked(b.open)
	b.open = nil
}

// wakeWaitersLocked lets those that wait for room look again.
func (b *Backend) wakeWaitersLocked() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}
