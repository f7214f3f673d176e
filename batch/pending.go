// This file is a batch on its way, and the two orders in which batches wait:
// first in first out, and failed ones by the time of their next try.

package batch

import (
	"container/heap"
	"time"
)

// pendingBatch is a batch from the cut until it is settled.
type pendingBatch struct {
	events *Events
	owner  *Delivery // nil for asynchronous events
	origin uint64    // the same for all parts of a batch that was split

	failures     int       // of this batch since it was cut
	lastCause    cause     // of the last failure
	successesAt  uint64    // accepted batches of the backend when this one, or the one it was split from, first failed
	due          time.Time // of the next try
	lastTry      time.Time
	shrunk       bool        // cut smaller by a probe
	tries        int         // requests made with it
	underWay     bool        // a request is
	slowTimer    *time.Timer // while under way
	countedSlow  bool        // it is under way for longer than Config.SlowAfter
	isProbe      bool        // it was sent while the webhook was down
	isPart       bool        // it comes from a batch that was split for a refusal
	isStuck      bool        // see Delivery.Stuck; its events are counted there
	half         *halves     // the two halves it is one of
	sizeWhenSent int

	// Of a single event:
	refusals       int    // failures with another batch accepted since the one before
	batchesAtFault uint64 // accepted batches of the backend at its last failure
	whole          []byte // the event as it was taken, once it was made smaller
}

// halves watches the two parts of a batch that was refused: when both are
// accepted, its size was the reason.
type halves struct {
	accepted int
	whole    int // body size of the batch that was refused
}

// fifo is a queue of batches.
type fifo struct {
	items []*pendingBatch
	first int
}

func (q *fifo) len() int { return len(q.items) - q.first }

func (q *fifo) push(p *pendingBatch) { q.items = append(q.items, p) }

func (q *fifo) peek() *pendingBatch {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.first]
}

func (q *fifo) pop() *pendingBatch {
	p := q.peek()
	if p == nil {
		return nil
	}
	q.items[q.first] = nil
	q.first++
	if q.first > 64 && q.first*2 > len(q.items) {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return p
}

// pushFront puts p before all others.
func (q *fifo) pushFront(p *pendingBatch) {
	if q.first == 0 {
		q.items = append([]*pendingBatch{nil}, q.items...)
		q.first = 1
	}
	q.first--
	q.items[q.first] = p
}

// failedHeap orders batches by the time of their next try.
type failedHeap []*pendingBatch

func (h failedHeap) Len() int           { return len(h) }
func (h failedHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h failedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *failedHeap) Push(x any)        { *h = append(*h, x.(*pendingBatch)) }
func (h *failedHeap) Pop() any {
	old := *h
	last := len(old) - 1
	p := old[last]
	old[last] = nil
	*h = old[:last]
	return p
}

func (h *failedHeap) add(p *pendingBatch) { heap.Push(h, p) }

func (h failedHeap) peek() *pendingBatch {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *failedHeap) popFirst() *pendingBatch {
	if len(*h) == 0 {
		return nil
	}
	return heap.Pop(h).(*pendingBatch)
}

// popLeastRecent takes, of the batches that match, the one whose last try is
// longest ago, so that probes go through all of them in turn. Without match, of all.
func (h *failedHeap) popLeastRecent(match func(*pendingBatch) bool) *pendingBatch {
	best := -1
	for i, p := range *h {
		if (match == nil || match(p)) && (best < 0 || p.lastTry.Before((*h)[best].lastTry)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return heap.Remove(h, best).(*pendingBatch)
}

// releaseAll makes every batch due at now, but for those that failed while
// others were accepted: their failures were their own. What the webhook did not
// refuse in so many words is tried once more as it is.
func (h *failedHeap) releaseAll(now time.Time, isSuspect func(*pendingBatch) bool) {
	for _, p := range *h {
		if isSuspect(p) {
			continue
		}
		if p.due.After(now) {
			p.due = now
		}
		if p.lastCause == causeServer && !p.isPart {
			p.failures = min(p.failures, causeServer.triesBeforeSplit()-1)
			p.setStuckLocked(false)
		}
	}
	heap.Init(h)
}
