// This file is the Backend and its life: New, Run, Shutdown, and the account
// of every event.

package batch

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Backend batches audit events and sends them. Its methods may be called from
// any goroutine. It has at most MaxConcurrentRequests goroutines that send, one
// that waits for the stop channel, and timers; none before Run, none after
// Shutdown has returned.
type Backend struct {
	cfg     Config
	sender  Sender
	limiter *rate.Limiter // nil without throttle

	// sendCtx is the context of every request. It ends when the drain time is
	// over and is never derived from the stop channel: a stop must not cut a
	// request short.
	sendCtx     context.Context
	cancelSends context.CancelFunc

	finished chan struct{} // closed when the intake has ended and nothing is pending or under way

	mu sync.Mutex // guards all below; never held while sending or calling the observer

	running  bool // Run was called
	stopped  bool // the intake has ended
	draining bool // Shutdown was called
	overtime bool // the drain time is over
	isKept   bool // what is given up is not lost
	drainEnd time.Time
	ended    bool // finished is closed

	stats        Stats
	pendingBytes int // of the events taken and not settled
	held         int // bytes of the memory that these events are in
	suspects     struct{ events, bytes int }

	queue     *queue
	judge     judge
	size      sizeLimit
	gate      gate
	known     returnedEvents
	batches   uint64      // cut so far
	active    int         // requests under way
	wake      *time.Timer // dispatches again when something is due
	drainOver *time.Timer

	health        Health        // what was told last
	healthChanged chan struct{} // closed and replaced when it changes
	spaceFreed    chan struct{} // closed and replaced when events have left the buffer; nil while nobody waits

	notes     []func() // what the observer is to be told once the lock is free, in order
	notifying bool     // a goroutine does so

	pool pool
}

// Stats is the account of events. At all times
// Taken = Accepted + Rejected + Returned + GivenUp + Pending.
type Stats struct {
	Taken    uint64 // by either intake
	Accepted uint64 // answered with success
	Rejected uint64 // set aside: refused for good
	Returned uint64 // to their Delivery's owner, who brings them again: see Observer.GivenUp
	GivenUp  uint64 // unsettled when the drain time was over
	Pending  uint64 // taken and none of these yet

	Requests uint64 // tries that have returned
	Failures uint64 // of them, those that failed
	Batches  uint64 // of them, those that were accepted
}

// New makes a Backend that sends with sender. Nothing starts before Run. The
// settings are used as they are: checking them is the owner's part.
func New(cfg Config, sender Sender) *Backend {
	b := &Backend{
		cfg:      cfg,
		sender:   sender,
		finished: make(chan struct{}),
		queue:    newQueue(cfg.MaxConcurrentRequests),
		judge:    newJudge(cfg.InitialBackoff, time.Now()),
		size:     newSizeLimit(cfg.MaxBytes),
		gate:     newGate(),

		healthChanged: make(chan struct{}),

		pool: newPool(cfg.MaxBytes, 2*cfg.MaxConcurrentRequests+2),
	}
	b.sendCtx, b.cancelSends = context.WithCancel(context.Background())
	if cfg.ThrottleEnable {
		b.limiter = rate.NewLimiter(rate.Limit(cfg.ThrottleQPS), cfg.ThrottleBurst)
	}
	return b
}

// Run starts sending and returns at once. Events taken before Run are sent from
// now on. When stopCh is closed the intake ends; requests go on. It is an error
// to call Run twice, or after Shutdown.
func (b *Backend) Run(stopCh <-chan struct{}) error {
	b.mu.Lock()
	defer b.unlock()
	if b.running {
		return errors.New("the backend runs already")
	}
	if b.draining {
		return errors.New("the backend was shut down")
	}
	b.running = true
	go func() {
		select {
		case <-stopCh:
			b.mu.Lock()
			b.endIntakeLocked()
			b.unlock()
		case <-b.finished:
		}
	}()
	b.dispatchLocked()
	return nil
}

// Shutdown ends the intake, if the stop channel has not done so, and blocks
// until every event taken is settled and the last request has returned. When
// drain has passed before that, the requests under way are cancelled and what
// is left is given up. It may be called several times, at once, before Run or
// instead of it (then everything taken is given up at once); every call returns
// at the same point, which the first call's drain and isKept decide. After it the observer is not
// called any more.
//
// What waits for a back-off is due at once: it is the last occasion.
//
// With isKept what is given up is not lost: its owner has it, and it will be sent
// again. Then no request is begun that would probably be cut off, which a receiver
// that stores first would have twice, and the end comes once the last one has
// returned.
func (b *Backend) Shutdown(drain time.Duration, isKept bool) {
	b.mu.Lock()
	b.endIntakeLocked()
	if !b.draining {
		b.draining, b.isKept = true, isKept
		now := time.Now()
		b.drainEnd = now.Add(drain)
		switch {
		case b.ended:
		case !b.running:
			b.overtimeLocked()
		default:
			b.drainOver = time.AfterFunc(drain, func() {
				b.mu.Lock()
				b.overtimeLocked()
				b.unlock()
			})
			b.queue.change(now, func(p *pendingBatch) { p.due = now })
			b.gate.due = now
			b.dispatchLocked()
		}
	}
	b.unlock()
	<-b.finished
}

// Stats returns the account of events at this moment. Blocks for no longer than
// the intake's own bookkeeping.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// endIntakeLocked refuses events from now on; those that wait for company do so no longer.
// It runs under the lock that enqueues, so nothing can be taken after it.
func (b *Backend) endIntakeLocked() {
	if b.stopped {
		return
	}
	b.stopped = true
	b.wakeWaitersLocked()
	b.dispatchLocked()
}

// overtimeLocked cancels the requests under way and gives up what waits.
// Requests that were accepted all the same still count as accepted.
func (b *Backend) overtimeLocked() {
	if b.overtime || b.ended {
		return
	}
	b.overtime = true
	b.cancelSends()
	for fresh := &b.queue.fresh; fresh.events > 0; {
		b.giveUpLocked(b.newBatchLocked(fresh.cut(fresh.events, fresh.bytes+bodyOverhead)))
	}
	for _, h := range b.queue.failedHeaps() {
		for p := h.peek(); p != nil; p = h.peek() {
			b.queue.remove(p)
			b.giveUpLocked(p)
		}
	}
}

// tooLateLocked says whether a request that is begun now would probably be cut off
// at the end of the drain time, for nothing.
func (b *Backend) tooLateLocked(now time.Time) bool {
	return b.draining && b.isKept && b.drainEnd.Sub(now) < b.judge.usual+b.judge.usual/2
}

// giveUpLocked lets a batch that waits nowhere end as given up.
func (b *Backend) giveUpLocked(p *pendingBatch) { b.partWithLocked(p, givenUp) }

// partWithLocked settles a batch that waits nowhere once the observer has its events.
func (b *Backend) partWithLocked(p *pendingBatch, o outcome) {
	tell := b.cfg.Observer.GivenUp
	if tell == nil {
		b.settleLocked(p, o)
		return
	}
	b.noteLocked(func() {
		for _, v := range p.views {
			ev := v.run.events.slice(v.from, v.to)
			if p.original != nil {
				ev = newEvents(len(listHead) + len(p.original) + len(listTail))
				ev.Add(p.original, v.ids()[0])
			}
			tell(ev, v.run.owner)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.settleLocked(p, o)
	})
}

type outcome int

const (
	accepted outcome = iota
	rejected
	returned
	givenUp
)

// settleLocked closes the account of the events of p.
func (b *Backend) settleLocked(p *pendingBatch, o outcome) {
	b.unsuspectLocked(p)
	b.stats.Pending -= uint64(p.events)
	b.pendingBytes -= p.bytes
	switch n := uint64(p.events); o {
	case accepted:
		b.stats.Accepted += n
	case rejected:
		b.stats.Rejected += n
	case returned:
		b.stats.Returned += n
	case givenUp:
		b.stats.GivenUp += n
	}
	for _, v := range p.views {
		if d := v.run.owner; d != nil {
			d.settledLocked(v.len(), o)
		}
		b.dropViewLocked(v)
	}
	p.views = nil
	b.wakeWaitersLocked()
}

// dropViewLocked gives the memory of a run back with the last of its views.
func (b *Backend) dropViewLocked(v view) {
	if v.run.views--; v.run.views == 0 {
		b.held -= cap(v.run.events.buf)
		b.pool.put(v.run.events)
	}
}

// endIfDoneLocked closes finished once nothing can happen any more.
func (b *Backend) endIfDoneLocked() {
	if b.ended || !b.stopped || b.stats.Pending > 0 || b.active > 0 || b.notifying || len(b.notes) > 0 {
		return
	}
	// Before Run nothing is sent, so the end is Shutdown's to declare.
	if !b.running && !b.draining {
		return
	}
	b.ended = true
	for _, t := range []*time.Timer{b.wake, b.drainOver} {
		if t != nil {
			t.Stop()
		}
	}
	b.cancelSends()
	b.pool.drop()
	close(b.finished)
}
