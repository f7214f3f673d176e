// This file makes batches smaller: halves of a batch that is at fault, the
// first part of one for a probe, and the size that the receiver is known to
// take.

package batch

// shouldSplitLocked says whether p is to go on in two halves: it is refused
// while others are accepted, so that it is the batch and not the webhook.
func (b *Backend) shouldSplitLocked(p *pendingBatch) bool {
	if p.events.Len() < 2 || p.failures == 0 || !p.lastCause.sizeMayExplain() {
		return false
	}
	if p.lastCause == causeTooLarge {
		return true
	}
	tries := p.lastCause.triesBeforeSplit()
	if p.isPart {
		tries = 1 // the whole has shown that it is not a passing fault
	}
	return p.failures >= tries && b.stats.Batches > p.successesAt
}

// isOwnFaultLocked says whether another try of p as it is will hardly help.
func (b *Backend) isOwnFaultLocked(p *pendingBatch) bool {
	return b.isIsolatedLocked(p) ||
		p.lastCause.sizeMayExplain() && p.failures >= min(p.lastCause.triesBeforeSplit(), 2)
}

// isIsolatedLocked says whether p is a single event that fails while other
// batches are accepted: its failures say nothing about the webhook.
func (b *Backend) isIsolatedLocked(p *pendingBatch) bool {
	return p.events.Len() == 1 && p.failures > 0 && b.stats.Batches > p.successesAt
}

// halveLocked splits p in two, returns the first half and queues the other one
// next.
func (b *Backend) halveLocked(p *pendingBatch) *pendingBatch {
	p.setStuckLocked(false)
	p.failures, p.isPart = 0, true
	h := &halves{whole: p.sizeWhenSent}
	first := b.splitOffLocked(p, (p.events.Len()+1)/2)
	first.half, b.queue.peek().half = h, h
	return first
}

// splitOffLocked takes the first n events out of p into a batch of its own and
// returns it. The rest waits in front of all others that wait as p did: those
// that have never failed, or those that have.
func (b *Backend) splitOffLocked(p *pendingBatch, n int) *pendingBatch {
	all := p.events
	part, rest := *p, *p
	part.events = all.slice(0, n)
	rest.events = all.slice(n, all.Len())
	b.pendingBytes += part.events.Size() + rest.events.Size() - all.Size()
	b.pool.put(all)
	p.events = nil // p is no more
	part.half, rest.half = nil, nil
	if p.failures == 0 {
		b.queue.pushFront(&rest)
	} else {
		b.failed.add(&rest)
	}
	return &part
}

// learnFromSuccessLocked lets batches grow again, and remembers a size that was
// refused when the two halves of a batch are both accepted.
func (b *Backend) learnFromSuccessLocked(p *pendingBatch) {
	if h := p.half; h != nil {
		h.accepted++
		if h.accepted == 2 && b.learned.isRefusal(h.whole, p.origin) {
			b.learned.refused(h.whole)
			return
		}
	}
	b.learned.accepted(p.sizeWhenSent, b.cfg.MaxBytes)
}

// sizeLimit is the size of request body that the receiver is known to take.
type sizeLimit struct {
	limit   int // bytes; 0: no limit known
	tooMuch int // bytes that were refused last; 0: none known

	// Bodies that were refused while their two halves were accepted.
	signs     int    // of how many batches
	origin    uint64 // of the last
	suspected int    // bytes of the smallest
}

// signsOfSize is of how many batches in a row, with none as large accepted, a body must
// have been refused and its halves accepted, until it is the size: one bad server of
// several refuses at random.
const signsOfSize = 6

// slowGrowth is the part by which the limit grows with each full batch near the
// size that was refused: one refusal in some 45 batches tells when the receiver
// takes more than it did.
const slowGrowth = 64

// bytes is the limit, at most the configured one.
func (l *sizeLimit) bytes(configured int) int {
	if l.limit == 0 {
		return configured
	}
	return min(l.limit, configured)
}

// isRefusal notes a body, part of the batch of that origin, whose halves were accepted,
// and says whether its size is why it was refused.
func (l *sizeLimit) isRefusal(size int, origin uint64) bool {
	if l.signs == 0 || size < l.suspected {
		l.suspected = size
	}
	if l.signs == 0 || origin != l.origin {
		l.signs++
	}
	l.origin = origin
	return l.signs >= signsOfSize
}

// refused notes that a body of that size was refused for its size.
func (l *sizeLimit) refused(size int) {
	l.tooMuch, l.signs = size, 0
	if half := max(1, size/2); l.limit == 0 || half < l.limit {
		l.limit = half
	}
}

// worked notes the size of the probe that was accepted after larger ones were
// not. Their failures may have had another reason, so the limit grows fast from
// here on, unless a size is known to be too much.
func (l *sizeLimit) worked(size int) {
	l.limit = size
}

// accepted lets the limit grow after a batch that came near it.
func (l *sizeLimit) accepted(size, configured int) {
	if size >= l.suspected {
		l.signs = 0
	}
	if l.limit == 0 || size < l.limit/2 {
		return
	}
	if l.tooMuch == 0 || l.limit < l.tooMuch/3 {
		l.limit *= 2
	} else {
		l.limit += l.limit/slowGrowth + 1
	}
	if l.limit >= configured {
		*l = sizeLimit{}
	}
}
