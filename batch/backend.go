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
	leaves   bool // what is given up is not lost
	drainEnd time.Time
	ended    bool // finished is closed

	stats        Stats
	pendingBytes int

	open      *pendingBatch // asynchronous events waiting for company, nil if none
	linger    *time.Timer   // cuts open
	queue     fifo          // batches that have never failed
	failed    failedHeap    // batches that wait for their next try
	active    int           // requests under way
	wake      *time.Timer   // dispatches again when a failed batch, a probe or the throttle is due
	drainOver *time.Timer

	health  health
	learned sizeLimit
	usual   time.Duration // what an accepted request takes lately; 0 before the first
	origins uint64        // batches cut so far
	notes   []func()      // what the observer is to be told once the lock is free

	room chan struct{} // closed and replaced when events have left the buffer; nil while nobody waits
	news chan struct{} // closed and replaced when the health changes

	pool pool
}

// Stats is the account of events. At all times
// Taken = Accepted + Rejected + GivenUp + Pending.
type Stats struct {
	Taken    uint64 // by either intake
	Accepted uint64 // answered with success
	Rejected uint64 // set aside: refused for good
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
		news:     make(chan struct{}),
		pool:     newPool(cfg.MaxBytes, cfg.MaxConcurrentRequests+2),
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
	defer b.mu.Unlock()
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
			b.mu.Unlock()
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
// at the same point, which the first call's drain and leave decide.
//
// With leave what is given up is not lost: its owner has it, and it will be sent
// again. Then no request is begun that would probably be cut off, which a receiver
// that stores first would have twice, and the end comes once the last one has
// returned.
func (b *Backend) Shutdown(drain time.Duration, leave bool) {
	b.mu.Lock()
	b.endIntakeLocked()
	if !b.draining {
		b.draining, b.leaves = true, leave
		b.drainEnd = time.Now().Add(drain)
		switch {
		case b.ended:
		case !b.running:
			b.overtimeLocked()
		default:
			b.drainOver = time.AfterFunc(drain, func() {
				b.mu.Lock()
				b.overtimeLocked()
				b.mu.Unlock()
			})
			b.dispatchLocked()
		}
	}
	b.mu.Unlock()
	<-b.finished
}

// Stats returns the account of events at this moment. Blocks for no longer than
// the intake's own bookkeeping.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// endIntakeLocked refuses events from now on and cuts the batch that waits for
// company. It runs under the lock that enqueues, so nothing can be taken after
// it.
func (b *Backend) endIntakeLocked() {
	if b.stopped {
		return
	}
	b.stopped = true
	b.cutOpenLocked()
	b.wakeWaitersLocked()
	b.dispatchLocked()
	b.endIfDoneLocked()
}

// overtimeLocked cancels the requests under way and gives up what waits.
// Requests that were accepted all the same still count as accepted.
func (b *Backend) overtimeLocked() {
	if b.overtime || b.ended {
		return
	}
	b.overtime = true
	b.cancelSends()
	for p := b.queue.pop(); p != nil; p = b.queue.pop() {
		b.giveUpLocked(p)
	}
	for p := b.failed.popFirst(); p != nil; p = b.failed.popFirst() {
		b.giveUpLocked(p)
	}
	b.endIfDoneLocked()
}

// tooLateLocked says whether a request that is begun now would probably be cut off
// at the end of the drain time, for nothing.
func (b *Backend) tooLateLocked(now time.Time) bool {
	return b.draining && b.leaves && b.drainEnd.Sub(now) < b.usual+b.usual/2
}

// noteDurationLocked learns what an accepted request takes: the longest of late.
func (b *Backend) noteDurationLocked(took time.Duration) {
	if took > b.usual {
		b.usual = took
	} else {
		b.usual -= (b.usual - took) / 8
	}
}

// giveUpLocked settles a batch as given up. The lock is let go while the
// observer is told.
func (b *Backend) giveUpLocked(p *pendingBatch) {
	if tell := b.cfg.Observer.GivenUp; tell != nil {
		b.mu.Unlock()
		tell(p.events, p.owner)
		b.mu.Lock()
	}
	b.settleLocked(p, givenUp)
}

// endIfDoneLocked closes finished once nothing can happen any more.
func (b *Backend) endIfDoneLocked() {
	if b.ended || !b.stopped || b.stats.Pending > 0 || b.active > 0 {
		return
	}
	// Before Run nothing is sent, so the end is Shutdown's to declare.
	if !b.running && !b.draining {
		return
	}
	b.ended = true
	for _, t := range []*time.Timer{b.wake, b.drainOver, b.linger} {
		if t != nil {
			t.Stop()
		}
	}
	b.cancelSends()
	b.pool.drop()
	close(b.finished)
}
