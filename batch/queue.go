// This file decides whose turn it is: what waits, in which order, and what may not go yet.

package batch

import (
	"cmp"
	"container/heap"
	"time"
)

const (
	// costlyShare is the part of the slots' time that suspects may have whose tries take
	// long: one in four.
	costlyShare = 4

	// patience is how long single suspects wait for an acceptance that vouches for their
	// next try. Then they are tried all the same, and it does not count.
	patience = 30 * time.Second
)

// queue is what waits. Fresh events have not been tried, and are cut into batches when a
// slot is free and not before: behind a slow webhook they gather into full ones. Batches
// that have failed wait until they are due; then retries, suspects and fresh events take
// turns. Nothing that hangs can starve what the webhook accepts.
type queue struct {
	slots int // requests under way at once
	fresh freshEvents

	later batchHeap // failed and not due yet
	// Failed and due:
	retries      batchHeap // no suspects
	parts        batchHeap // suspects of several events
	costlyParts  batchHeap // of them, those that hold a slot for long
	trials       batchHeap // single suspects that have failed by themselves
	costlyTrials batchHeap

	// Under way:
	activeTrials       int
	activeCostly       int
	activeCostlyTrials int // counted in both

	costlyRests time.Time // when the next costly one may go, with fewer slots than costlyShare
	last        kind      // whose turn it was last
}

func newQueue(slots int) *queue {
	q := &queue{slots: slots}
	byDue := func(a, b *pendingBatch) bool { return a.due.Before(b.due) }
	byFailures := func(a, b *pendingBatch) bool {
		if a.failures != b.failures {
			return a.failures > b.failures // the sooner something is certain the better
		}
		return a.due.Before(b.due)
	}
	for _, h := range []*batchHeap{&q.later, &q.retries, &q.parts, &q.costlyParts} {
		h.less = byDue
	}
	q.trials.less, q.costlyTrials.less = byFailures, byFailures
	return q
}

// failedHeaps are all places where batches wait that have failed.
func (q *queue) failedHeaps() []*batchHeap {
	return []*batchHeap{&q.later, &q.retries, &q.parts, &q.costlyParts, &q.trials, &q.costlyTrials}
}

// isEmpty says whether nothing waits.
func (q *queue) isEmpty() bool { return q.fresh.events == 0 && q.failed() == 0 }

// failed is how many batches wait that have failed.
func (q *queue) failed() (n int) {
	for _, h := range q.failedHeaps() {
		n += len(h.items)
	}
	return n
}

// each calls do for each batch that waits and has failed; do must not change the queue.
func (q *queue) each(do func(*pendingBatch)) {
	for _, h := range q.failedHeaps() {
		for _, p := range h.items {
			do(p)
		}
	}
}

// add lets p wait until p.due.
func (q *queue) add(p *pendingBatch, now time.Time) {
	if p.due.After(now) {
		q.later.push(p)
		return
	}
	q.heapOf(p).push(p)
}

func (q *queue) heapOf(p *pendingBatch) *batchHeap {
	switch trial, costly := p.isTrial(), p.isCostly(); {
	case !p.suspect:
		return &q.retries
	case trial && costly:
		return &q.costlyTrials
	case trial:
		return &q.trials
	case costly:
		return &q.costlyParts
	default:
		return &q.parts
	}
}

// remove takes p out of where it waits.
func (q *queue) remove(p *pendingBatch) { heap.Remove(p.in, p.at) }

// change lets change say when each batch that waits and has failed is due.
func (q *queue) change(now time.Time, change func(*pendingBatch)) {
	var all []*pendingBatch
	for _, h := range q.failedHeaps() {
		all = append(all, h.items...)
		clear(h.items)
		h.items = h.items[:0]
	}
	for _, p := range all {
		change(p)
		q.add(p, now)
	}
}

// ripen moves what is due by now.
func (q *queue) ripen(now time.Time) {
	for {
		p := q.later.peek()
		if p == nil || p.due.After(now) {
			return
		}
		q.remove(p)
		q.heapOf(p).push(p)
	}
}

// kind is what takes turns.
type kind int

const (
	fresh kind = iota
	retries
	suspects
	kinds
)

// turn is what may go next: a batch that has failed, which still waits, or fresh events.
type turn struct {
	failed *pendingBatch
	fresh  bool
}

// next says whose turn it is while the gate is open. freshReady says whether fresh events
// may go. If nothing may go now, again is when to ask next, zero if that depends on
// something else that happens: an answer, or events.
func (q *queue) next(now time.Time, j *judge, freshReady bool) (t turn, again time.Time) {
	q.ripen(now)
	mayCostly := q.activeCostly < max(1, q.slots/costlyShare) && !now.Before(q.costlyRests)
	patient := j.lastAccepted.Add(patience)

	trial := q.nextTrial(now, j, mayCostly, patient)
	if trial != nil && j.wantsTrial(trial.evidence, q.hasOthers()) {
		// Others have just been accepted, so that a failure now would say something.
		return turn{failed: trial}, time.Time{}
	}
	part := q.parts.peek()
	if mayCostly {
		part = first(part, q.costlyParts.peek(), q.parts.less)
	}
	waiting := [kinds]*pendingBatch{retries: q.retries.peek(), suspects: first(part, trial, q.parts.less)}
	for i := range kinds {
		switch k := (q.last + 1 + i) % kinds; {
		case k == fresh && freshReady:
			return turn{fresh: true}, time.Time{}
		case waiting[k] != nil:
			return turn{failed: waiting[k]}, time.Time{}
		}
	}
	wakeAt := func(t time.Time) {
		if t.After(now) && (again.IsZero() || t.Before(again)) {
			again = t
		}
	}
	if p := q.later.peek(); p != nil {
		wakeAt(p.due)
	}
	if len(q.trials.items)+len(q.costlyTrials.items) > 0 && q.activeTrials == q.activeCostlyTrials {
		wakeAt(patient)
	}
	if len(q.costlyParts.items)+len(q.costlyTrials.items) > 0 {
		wakeAt(q.costlyRests)
	}
	return turn{}, again
}

// hasOthers says whether something waits for its turn beside single suspects.
func (q *queue) hasOthers() bool {
	return q.fresh.events+len(q.retries.items)+len(q.parts.items)+len(q.costlyParts.items) > 0
}

// nextTrial is the single suspect that may go: one at a time, so that it is known whose fault a
// crash is, the most refused first, or one that the judge wants to be tried. While one hangs
// a quick one may go, though its failure does not count. patient is when they are tried all the same.
func (q *queue) nextTrial(now time.Time, j *judge, mayCostly bool, patient time.Time) *pendingBatch {
	if q.activeTrials > q.activeCostlyTrials {
		return nil
	}
	most, least := q.trials.peek(), q.trials.leaf()
	if mayCostly && q.activeTrials == 0 && len(q.costlyParts.items) == 0 { // most events of a part are good, and wait
		most, least = first(most, q.costlyTrials.peek(), q.trials.less), cmp.Or(least, q.costlyTrials.leaf())
	}
	switch {
	case most == nil:
	case j.wantsTrial(most.evidence, q.hasOthers()) || !now.Before(patient):
		return most
	case j.wantsTrial(least.evidence, q.hasOthers()):
		return least
	}
	return nil
}

// first is the one of a and b that goes first; either may be nil.
func first(a, b *pendingBatch, less func(a, b *pendingBatch) bool) *pendingBatch {
	if a == nil || b != nil && less(b, a) {
		return b
	}
	return a
}

// sent notes that a request with p, which waits no more, begins.
func (q *queue) sent(p *pendingBatch, now time.Time) {
	switch {
	case p.suspect:
		q.last = suspects
	case p.firstFailed.IsZero():
		q.last = fresh
	default:
		q.last = retries
	}
	q.count(p, 1)
}

// tookToFail notes what a failed try took. With few slots, others have three times that before
// the next costly suspect, if there is one slot, and accordingly with more.
func (q *queue) tookToFail(took time.Duration, now time.Time) {
	if took >= costlyAfter && q.slots < costlyShare {
		q.costlyRests = later(q.costlyRests, now.Add(took*time.Duration(costlyShare-q.slots)/time.Duration(q.slots)))
	}
}

// returned notes that the request with p has ended. p must be as it was when it was sent.
func (q *queue) returned(p *pendingBatch) { q.count(p, -1) }

func (q *queue) count(p *pendingBatch, by int) {
	if p.isTrial() {
		q.activeTrials += by
	}
	if p.isCostly() {
		q.activeCostly += by
	}
	if p.isTrial() && p.isCostly() {
		q.activeCostlyTrials += by
	}
}

// leastRecent is the batch whose last try is longest ago, no suspect if there are others.
// With preferCut it is one that was cut already, if there is one.
func (q *queue) leastRecent(preferCut bool) (oldest *pendingBatch) {
	q.each(func(p *pendingBatch) {
		switch {
		case oldest == nil:
		case oldest.suspect != p.suspect:
			if p.suspect {
				return
			}
		case preferCut && oldest.isCut != p.isCut:
			if oldest.isCut {
				return
			}
		case !p.sentAt.Before(oldest.sentAt):
			return
		}
		oldest = p
	})
	return oldest
}

// returnable is the single suspect that may best leave for a while, nil if none waits: the one
// that was tried last and is not due, so that each that comes back has its turn; or else one of
// those with the least against it, as the others are about to be certain.
func (q *queue) returnable() *pendingBatch {
	if p := q.laterSuspect(func(a, b *pendingBatch) bool { return a.sentAt.After(b.sentAt) }); p != nil {
		return p
	}
	return cmp.Or(q.costlyTrials.leaf(), q.trials.leaf())
}

// mostRefused is one of those with the most against it.
func (q *queue) mostRefused() *pendingBatch {
	return first(first(q.trials.peek(), q.costlyTrials.peek(), q.trials.less), q.laterSuspect(q.trials.less), q.trials.less)
}

// laterSuspect is the first of the single suspects that are not due.
func (q *queue) laterSuspect(less func(a, b *pendingBatch) bool) (found *pendingBatch) {
	for _, p := range q.later.items {
		if p.isTrial() {
			found = first(found, p, less)
		}
	}
	return found
}

// batchHeap is batches in an order, the first on top.
type batchHeap struct {
	items []*pendingBatch
	less  func(a, b *pendingBatch) bool
}

func (h *batchHeap) push(p *pendingBatch) { heap.Push(h, p) }

// peek is the first, nil if there is none.
func (h *batchHeap) peek() *pendingBatch {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

// leaf is one before which others go, nil if there is none.
func (h *batchHeap) leaf() *pendingBatch {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[len(h.items)-1]
}

func (h *batchHeap) Len() int           { return len(h.items) }
func (h *batchHeap) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *batchHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].at, h.items[j].at = i, j
}

func (h *batchHeap) Push(x any) {
	p := x.(*pendingBatch)
	p.in, p.at = h, len(h.items)
	h.items = append(h.items, p)
}

func (h *batchHeap) Pop() any {
	last := len(h.items) - 1
	p := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	p.in = nil
	return p
}
