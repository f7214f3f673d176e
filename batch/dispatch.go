// This file sends: which batch goes next, what its answer means for it, and
// settling.

package batch

import (
	"fmt"
	"runtime/debug"
	"time"
)

// PanicError is the failure of a try in which the sender panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic while sending: %v", e.Value) }

// dispatchLocked starts as many requests as there are batches and bounds allow,
// and sees to it that it runs again when the next one is due.
func (b *Backend) dispatchLocked() {
	if !b.running || b.overtime {
		return
	}
	for b.active < b.cfg.MaxConcurrentRequests {
		now := time.Now()
		if b.tooLateLocked(now) {
			if b.active == 0 {
				b.overtimeLocked()
			}
			return
		}
		due, ok := b.nextDueLocked(now)
		if !ok {
			return
		}
		if wait := due.Sub(now); wait > 0 {
			b.wakeInLocked(wait)
			return
		}
		if wait := b.throttle(now); wait > 0 {
			b.wakeInLocked(wait)
			return
		}
		p := b.takeNextLocked(now)
		b.active++
		p.underWay = true
		p.lastTry = now
		p.sizeWhenSent = p.events.Size()
		b.watchSlowLocked(p)
		go b.send(p)
	}
}

// nextDueLocked is when the next batch may go, false if none waits for a time.
func (b *Backend) nextDueLocked(now time.Time) (time.Time, bool) {
	waiting := b.queue.len() > 0 || len(b.failed) > 0
	switch {
	case !waiting, b.health.down && b.health.probing:
		return time.Time{}, false
	case b.health.down:
		return b.probeDueLocked(now), true
	case b.queue.len() > 0:
		return now, true
	}
	return b.failed.peek().due, true
}

// takeNextLocked takes the batch that nextDueLocked spoke of.
func (b *Backend) takeNextLocked(now time.Time) *pendingBatch {
	if b.health.down {
		return b.takeProbeLocked(now)
	}
	var p *pendingBatch
	if f := b.failed.peek(); f != nil && !f.due.After(now) {
		p = b.failed.popFirst()
		if b.shouldSplitLocked(p) {
			p = b.halveLocked(p)
		}
	} else {
		p = b.queue.pop()
	}
	if n := p.events.fit(b.learned.bytes(b.cfg.MaxBytes)); n < p.events.Len() {
		p = b.splitOffLocked(p, n)
	}
	return p
}

// throttle is how long the next request has to wait for the throttle; 0 means
// go, and takes its share.
func (b *Backend) throttle(now time.Time) time.Duration {
	if b.limiter == nil {
		return 0
	}
	r := b.limiter.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// wakeInLocked dispatches again after the wait.
func (b *Backend) wakeInLocked(wait time.Duration) {
	if b.wake == nil {
		b.wake = time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.unlock()
			if !b.ended {
				b.dispatchLocked()
			}
		})
		return
	}
	b.wake.Reset(wait)
}

// send makes one request and settles what it means. It runs in a goroutine of
// its own and holds no lock while the request is under way.
func (b *Backend) send(p *pendingBatch) {
	err := b.try(p)
	if err == nil && b.cfg.Observer.Accepted != nil {
		b.cfg.Observer.Accepted(p.events.ids)
	}
	var failure *Failure

	b.mu.Lock()
	now := time.Now()
	b.active--
	p.underWay = false
	b.unwatchSlowLocked(p)
	b.stats.Requests++
	if err == nil {
		b.stats.Batches++
		b.noteDurationLocked(now.Sub(p.lastTry))
		b.succeededLocked(p, now)
		b.learnFromSuccessLocked(p)
		b.settleLocked(p, accepted)
	} else {
		b.stats.Failures++
		failure = b.handleFailureLocked(p, err, now)
	}
	b.dispatchLocked()
	b.endIfDoneLocked()
	b.unlock()

	if tell := b.cfg.Observer.Failed; tell != nil && failure != nil {
		tell(*failure)
	}
}

// try sends p once. A panic of the sender costs this try and nothing else.
func (b *Backend) try(p *pendingBatch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return b.sender.Send(b.sendCtx, p.events.body())
}

// handleFailureLocked decides how a batch goes on after a failed try: given up
// when the drain time is over, in halves when the batch itself may be at fault,
// else again after its own back-off while the others go on.
func (b *Backend) handleFailureLocked(p *pendingBatch, err error, now time.Time) *Failure {
	if b.overtime {
		b.giveUpLocked(p)
		return nil
	}
	c := causeOf(err)
	if p.failures == 0 && !p.isPart {
		p.successesAt = b.stats.Batches
	}
	p.failures++
	p.lastCause = c
	b.failedLocked(p, c, err, now)
	p.isProbe = false
	p.events = b.pool.compact(p.events)

	failure := &Failure{Err: err, Events: p.events.Len(), Bytes: p.sizeWhenSent, Tries: p.failures}
	if b.isIsolatedLocked(p) {
		failure.Single = append([]byte(nil), p.events.Event(0)...)
	}
	if c == causeTooLarge && p.events.Len() > 1 {
		b.learned.refused(p.sizeWhenSent)
	}
	if b.isRefusedForGoodLocked(p) {
		if c == causeTooLarge && b.shrinkLocked(p, err) {
			b.queue.pushFront(p)
			return nil
		}
		if b.setAsideLocked(p, err) {
			return nil
		}
		if b.overtime { // meanwhile
			b.giveUpLocked(p)
			return nil
		}
	}
	if !b.health.down && b.shouldSplitLocked(p) {
		failure.Split = true
		b.queue.pushFront(b.halveLocked(p))
		return failure
	}
	p.setStuckLocked(b.isOwnFaultLocked(p))
	failure.Backoff = backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, p.failures, err)
	p.due = now.Add(failure.Backoff)
	b.failed.add(p)
	return failure
}

type outcome int

const (
	accepted outcome = iota
	rejected
	givenUp
)

// settleLocked closes the account of the events of p.
func (b *Backend) settleLocked(p *pendingBatch, o outcome) {
	n := p.events.Len()
	b.stats.Pending -= uint64(n)
	b.pendingBytes -= p.events.Size()
	switch o {
	case accepted:
		b.stats.Accepted += uint64(n)
	case rejected:
		b.stats.Rejected += uint64(n)
	case givenUp:
		b.stats.GivenUp += uint64(n)
	}
	p.setStuckLocked(false)
	if d := p.owner; d != nil {
		d.pending -= n
		switch o {
		case accepted:
			d.result.Accepted += n
		case rejected:
			d.result.Rejected += n
		case givenUp:
			d.result.GivenUp += n
		}
		d.closeIfDoneLocked()
		d.tellIfStuckLocked()
	}
	if o != givenUp {
		b.pool.put(p.events) // what was given up is the observer's
	}
	p.events = nil
	b.wakeWaitersLocked()
}

// enqueueLocked lets a batch wait for its first try.
func (b *Backend) enqueueLocked(p *pendingBatch) {
	b.origins++
	p.origin = b.origins
	b.queue.push(p)
}
