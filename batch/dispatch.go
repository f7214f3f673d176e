// This file sends: it asks whose turn it is, makes the request, and does with the batch
// what the judge, the size limit and the gate make of the answer.

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
	for b.active < b.cfg.MaxConcurrentRequests && !b.queue.isEmpty() {
		now := time.Now()
		if b.tooLateLocked(now) {
			if b.active == 0 {
				b.overtimeLocked()
			}
			return
		}
		if wait := b.throttle(now); wait > 0 {
			b.wakeAtLocked(now, now.Add(wait))
			return
		}
		var p *pendingBatch
		var again time.Time
		if b.gate.closed {
			p, again = b.nextProbeLocked(now)
		} else {
			p, again = b.nextLocked(now)
		}
		if p == nil {
			b.wakeAtLocked(now, again)
			return
		}
		if b.limiter != nil {
			b.limiter.AllowN(now, 1)
		}
		b.startLocked(p, now)
	}
}

// nextLocked takes the batch whose turn it is while the gate is open. Nil if none may go
// now: then again is when to ask next, zero if something else has to happen first.
func (b *Backend) nextLocked(now time.Time) (p *pendingBatch, again time.Time) {
	readyAt := b.freshReadyAtLocked(now)
	freshReady := !readyAt.IsZero() && !readyAt.After(now)
	t, again := b.queue.next(now, &b.judge, freshReady)
	switch {
	case t.failed != nil:
		return b.takeFailedLocked(t.failed), time.Time{}
	case t.fresh:
		return b.cutFreshLocked(), time.Time{}
	case !readyAt.IsZero() && (again.IsZero() || readyAt.Before(again)):
		again = readyAt
	}
	return nil, again
}

// freshReadyAtLocked is when fresh events may go, zero if there are none.
func (b *Backend) freshReadyAtLocked(now time.Time) time.Time {
	wait := b.cfg.MaxWait
	if b.stopped {
		wait = 0
	}
	return b.queue.fresh.readyAt(now, b.cfg.MaxSize, b.size.limit, wait)
}

// cutFreshLocked cuts the next batch of fresh events, to the size limit or, now and then,
// larger to try the size.
func (b *Backend) cutFreshLocked() *pendingBatch {
	fresh := &b.queue.fresh
	p := b.newBatchLocked(fresh.cut(b.cfg.MaxSize, b.bodyLimitLocked(bodyOverhead+fresh.bytes)))
	b.scoutIfLargerLocked(p)
	return p
}

// bodyLimitLocked is how large the next body may be that is cut from so many bytes: the size
// limit or, now and then, more to try the size.
func (b *Backend) bodyLimitLocked(have int) int {
	if have > b.size.limit {
		if larger, ok := b.size.scoutSize(b.judge.acceptances); ok {
			return larger
		}
	}
	return b.size.limit
}

func (b *Backend) scoutIfLargerLocked(p *pendingBatch) {
	p.scout = p.events > 1 && p.body() > b.size.limit
	b.size.scouting = b.size.scouting || p.scout
}

func (b *Backend) newBatchLocked(views []view) *pendingBatch {
	b.batches++
	p := newBatch(b.batches, views...)
	p.counted = b.judge.acceptances
	return p
}

// takeFailedLocked takes p out of the queue, or, if p is larger than what the receiver is
// known to accept, a first part of it.
func (b *Backend) takeFailedLocked(p *pendingBatch) *pendingBatch {
	if p.events > 1 && !p.scout && b.isTooLargeLocked(p) {
		if n := p.fit(b.cfg.MaxSize, b.bodyLimitLocked(p.body())); n < p.events {
			part := b.cutLocked(p, n)
			b.scoutIfLargerLocked(part)
			return part
		}
	}
	b.queue.remove(p)
	return p
}

// isTooLargeLocked says whether another try of p as it is would be in vain.
func (b *Backend) isTooLargeLocked(p *pendingBatch) bool {
	return b.size.isTooLarge(p.body()) ||
		p.body() > b.size.limit && p.cause.mayBeTheBatch() && (p.cause.storedNothing() && p.parts == 0 || p.tries >= 2 || p.took >= costlyAfter)
}

// cutLocked takes the first n events out of a batch that waits. Both parts are new batches,
// which nothing is known against.
func (b *Backend) cutLocked(p *pendingBatch, n int) *pendingBatch {
	b.queue.remove(p)
	b.leavesLocked(p)
	part := b.newBatchLocked(p.cutViews(n))
	rest := b.newBatchLocked(p.views)
	for _, q := range []*pendingBatch{part, rest} {
		q.isCut = true
		q.due, q.sentAt, q.cause, q.firstFailed = p.due, p.sentAt, p.cause, p.firstFailed
	}
	b.queue.add(rest, rest.due)
	return part
}

// nextProbeLocked takes the next probe while the gate is closed; nil if it is not its time.
func (b *Backend) nextProbeLocked(now time.Time) (p *pendingBatch, again time.Time) {
	g, fresh := &b.gate, &b.queue.fresh
	if g.probing {
		return nil, time.Time{}
	}
	if now.Before(g.due) {
		return nil, g.due
	}
	limit, small := b.size.limit, g.takesSmaller()
	if small {
		limit = min(limit, g.probeSize)
	}
	oldest := b.queue.leastRecent(small && g.shrinks && !g.refused)
	switch {
	case fresh.events > 0 && (small || oldest == nil || oldest.suspect || g.probes == 0):
		p = b.newBatchLocked(fresh.cut(b.cfg.MaxSize, limit))
		p.isSmall = small && g.shrinks
	case oldest == nil:
		return nil, time.Time{}
	case small && g.shrinks && oldest.events > 1 && oldest.body() > limit:
		p = b.cutLocked(oldest, oldest.fit(b.cfg.MaxSize, limit))
		p.isSmall = true
	default:
		b.queue.remove(oldest)
		p = oldest
	}
	p.isProbe, g.probing = true, true
	return p, time.Time{}
}

// throttle is how long the next request has to wait for the throttle.
func (b *Backend) throttle(now time.Time) time.Duration {
	if b.limiter == nil {
		return 0
	}
	r := b.limiter.ReserveN(now, 1)
	defer r.CancelAt(now)
	return r.DelayFrom(now)
}

// wakeAtLocked dispatches again at that time; never for zero.
func (b *Backend) wakeAtLocked(now, at time.Time) {
	if at.IsZero() {
		return
	}
	wait := max(at.Sub(now), time.Microsecond)
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

// startLocked begins a request.
func (b *Backend) startLocked(p *pendingBatch, now time.Time) {
	b.active++
	p.sentAt = now
	p.wasVouched = b.judge.vouches() && !(p.isTrial() && b.queue.activeTrials > 0)
	b.queue.sent(p, now)
	if !p.suspect {
		b.watchSlowLocked(p)
	}
	go b.send(p)
}

// watchSlowLocked makes the webhook count as slow once p is under way for too long.
func (b *Backend) watchSlowLocked(p *pendingBatch) {
	var timer *time.Timer
	timer = time.AfterFunc(b.cfg.SlowAfter, func() {
		b.mu.Lock()
		defer b.unlock()
		if p.slowTimer == timer {
			p.countedSlow = true
			b.gate.slow++
			b.updateHealthLocked()
		}
	})
	p.slowTimer = timer
}

func (b *Backend) unwatchSlowLocked(p *pendingBatch) {
	if p.slowTimer == nil {
		return
	}
	p.slowTimer.Stop()
	p.slowTimer = nil
	if p.countedSlow {
		p.countedSlow = false
		b.gate.slow--
	}
}

// send makes one request and settles what it means. It runs in a goroutine of its own and
// holds no lock while the request is under way.
func (b *Backend) send(p *pendingBatch) {
	err := b.try(p)
	var moved []view
	if err == nil {
		b.observeAccepted(p.ids())
	} else {
		moved = p.worthTheirMemory()
	}

	b.mu.Lock()
	now := time.Now()
	b.active--
	b.unwatchSlowLocked(p)
	b.queue.returned(p)
	b.stats.Requests++
	if moved != nil {
		b.replaceLocked(p, moved)
	}
	if err == nil {
		b.stats.Batches++
		b.acceptedLocked(p, now)
	} else {
		b.stats.Failures++
		b.failedLocked(p, err, now)
	}
	b.updateHealthLocked()
	b.dispatchLocked()
	b.unlock()
}

// try sends p once. A panic of the sender costs this try and nothing else.
func (b *Backend) try(p *pendingBatch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if len(p.views) == 1 && p.views[0].isWhole() {
		return b.sender.Send(b.sendCtx, p.views[0].run.events.body())
	}
	body := b.pool.get()
	defer b.pool.put(body)
	for _, v := range p.views {
		v.appendTo(body)
	}
	return b.sender.Send(b.sendCtx, body.body())
}

// worthTheirMemory copies the views of p that hold much more memory than they need, as a batch
// may wait for long; nil if there is nothing to gain.
func (p *pendingBatch) worthTheirMemory() (views []view) {
	for i, v := range p.views {
		if !v.wastes() {
			continue
		}
		if views == nil {
			views = append(views, p.views...)
		}
		views[i] = v.detached()
	}
	return views
}

// replaceLocked gives p other views of the same events.
func (b *Backend) replaceLocked(p *pendingBatch, views []view) {
	for i, v := range p.views {
		if v.run != views[i].run {
			b.held += cap(views[i].run.events.buf)
			b.dropViewLocked(v)
		}
	}
	p.views = views
}

// acceptedLocked settles an accepted batch: whatever was thought of the webhook, it works.
func (b *Backend) acceptedLocked(p *pendingBatch, now time.Time) {
	b.judge.accepted(p.evidence, p.wasVouched, p.parts, now.Sub(p.sentAt), now)
	b.size.accepted(p.body(), p.scout, b.judge.acceptances)
	if p.whole != nil {
		b.size.partAccepted(p.whole, b.gate.closings, b.judge.acceptances)
	}
	if b.gate.accepted(p) {
		if p.isSmall {
			b.size.startFrom(p.body())
		}
		b.queue.change(now, func(q *pendingBatch) {
			if !q.suspect && !b.size.isAbove(q.body(), p.body(), q.events, p.isSmall) {
				q.due, q.took = now, 0
			}
			if rest := b.gate.rest(q, now); rest > 0 {
				q.due = later(q.due, now.Add(rest))
			}
		})
	}
	b.gate.forgetFailures()
	b.settleLocked(p, accepted)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// failedLocked decides how a batch goes on after a failed try: given up when the drain time
// is over, in parts, smaller or set aside when it is at fault itself, else again after its own
// back-off while the others go on.
func (b *Backend) failedLocked(p *pendingBatch, err error, now time.Time) {
	if b.overtime {
		b.giveUpLocked(p)
		return
	}
	c := causeOf(err)
	oversized := p.events == 1 && p.body() > b.size.limit
	b.noteFailureLocked(p, c, oversized, err, now)
	if !p.suspect && p.took >= costlyAfter && c.mayBeTheBatch() && p.events > 1 && b.size.slowFailure(p.body()) {
		// What is cut off it has its turn as any retry.
		p.due = now.Add(backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, 1, err))
		b.failureNoteLocked(p, Failure{Err: err, Events: p.events, Bytes: p.body(), Tries: p.tries, Backoff: p.due.Sub(now)})
		b.queue.add(p, now)
		return
	}
	doubt := b.judge.doubt(p.evidence)
	if p.parts > 0 && p.failures > 0 {
		doubt += priorOfPart(p.parts)
	}
	if p.parts > 0 || isBelow(doubt, suspectBelow) || oversized && c.mayBeTheBatch() {
		b.suspectLocked(p)
	}
	failure := Failure{Err: err, Events: p.events, Bytes: p.body(), Tries: p.tries, Parts: b.partsLocked(p, c, doubt, now)}
	switch {
	case failure.Parts > 0:
		wait := min(retryAfter(err), b.cfg.MaxBackoff)
		if c == causeTooLarge && b.judge.failuresRow > freshFailures { // everything is, it seems
			wait = backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, 1, err)
		}
		b.failureNoteLocked(p, failure)
		b.splitLocked(p, failure.Parts, now.Add(wait), now)
	case p.events == 1 && p.tooLarge >= triesBeforeShrink && p.failures >= triesBeforeShrink && b.shrinkLocked(p, err):
		b.queue.add(p, now)
	case !b.gate.closed && p.isSingle() && p.tries >= minTriesBeforeSetAside && isBelow(b.judge.doubt(p.evidence), setAsideBelow):
		b.setAsideLocked(p, err)
	default:
		tries := p.tries
		if p.parts > 0 && p.events > 1 {
			tries = max(1, p.failures) // the parts of what is at fault are soon found
		}
		failure.Backoff = backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, tries, err)
		p.due = now.Add(failure.Backoff)
		b.failureNoteLocked(p, failure)
		b.queue.add(p, now)
		b.makeRoomLocked(now)
	}
}

// noteFailureLocked tells all who decide of a failed try.
func (b *Backend) noteFailureLocked(p *pendingBatch, c cause, oversized bool, err error, now time.Time) {
	p.cause, p.took = c, now.Sub(p.sentAt)
	if p.firstFailed.IsZero() {
		p.firstFailed, p.failedSince = now, b.judge.acceptances
	}
	b.queue.tookToFail(p.took, now)
	if b.gate.failed(p, oversized, b.judge.acceptances, b.judge.lastAccepted, now) || b.gate.closed && p.isProbe {
		b.gate.probeFailed(p.body(), p.events, c, now, func(n int) time.Duration {
			return backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, n, err)
		})
	}
	p.isProbe = false
	if p.scout && p.took < costlyAfter {
		b.size.scoutFailed(b.judge.acceptances) // quick enough that the next may go meanwhile
	}
	p.tooLarge++
	if c == causeTooLarge {
		b.size.tooLarge(p.body(), p.scout, b.judge.acceptances)
	} else {
		p.tooLarge = 0
	}
	b.judge.count(&p.evidence, c, p.isSingle(), p.wasVouched, now)
}

// partsLocked is in how many parts p goes on at once, 0 if it does not: if it was too large,
// in so many words or most likely, if it is at fault, or if nothing else would show
// whether it is.
func (b *Backend) partsLocked(p *pendingBatch, c cause, doubt float64, now time.Time) int {
	switch {
	case p.events == 1 || !c.mayBeTheBatch():
		return 0
	case c == causeTooLarge, p.scout && (p.tries >= 2 || p.took >= costlyAfter):
		return 2
	case b.gate.closed:
		return 0
	case p.failures > 0 && isBelow(doubt, splitBelow), p.tries >= 2 && b.isAloneLocked(p, now):
		return min(b.judge.parts(p.took), p.events)
	}
	return 0
}

// aloneAfter is how long nothing was accepted when isAloneLocked gives up waiting for others.
const aloneAfter = 5 * time.Second

// isAloneLocked says whether nothing is pending beside p but suspects, and has not been for a
// while, so that nothing else could show whether the webhook works. A batch that fails then is
// split without certainty: its parts will show it.
func (b *Backend) isAloneLocked(p *pendingBatch, now time.Time) bool {
	others := int(b.stats.Pending) - b.suspects.events
	if !p.suspect {
		others -= p.events
	}
	return others == 0 && now.Sub(b.judge.lastAccepted) >= aloneAfter
}

// splitLocked lets p go on as m batches, all suspects, which may go at due.
func (b *Backend) splitLocked(p *pendingBatch, m int, due, now time.Time) {
	w := &pair{size: p.body(), part: p.bytes/m + smallestLimit, left: m, doubt: b.judge.doubt(p.evidence), since: p.failedSince, outages: b.gate.closings, scout: p.scout}
	p.splitInto = w
	b.leavesLocked(p)
	n := p.events
	for i := range m {
		part := b.newBatchLocked(p.cutViews((i+1)*n/m - i*n/m))
		part.parts, part.whole = m, w
		part.took, part.cause, part.sentAt = p.took, p.cause, p.sentAt
		part.firstFailed, part.failedSince, part.outagesBegun = p.firstFailed, p.failedSince, p.outagesBegun
		part.due = due
		b.suspectLocked(part)
		b.queue.add(part, now)
	}
	b.makeRoomLocked(now)
}

// failureNoteLocked tells the observer of a failed try after which the batch goes on.
func (b *Backend) failureNoteLocked(p *pendingBatch, f Failure) {
	tell := b.cfg.Observer.Failed
	if tell == nil {
		return
	}
	if p.isSingle() && b.judge.acceptances > p.failedSince {
		f.Single = append([]byte(nil), p.event()...)
	}
	b.noteLocked(func() { tell(f) })
}
