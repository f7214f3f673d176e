// This file is what becomes of a single event once it is certain that the event is
// at fault: it is made smaller if that may help, or set aside.

package batch

// refusalsForGood is how often a single event must have failed, each time with
// another batch accepted since the time before, before it is made smaller or set
// aside. Waiting is cheap, since it holds up no other; giving up an event that was
// not at fault is not. With one bad server of three behind a balancer an event is
// refused eleven times in a row once in 177,147, and 21 times once in 10 billion. A
// refusal (400, 413, 422) is at least said of the event.
func (c cause) refusalsForGood() int {
	if c == causeServer {
		return 20
	}
	return 10
}

// isRefusedForGoodLocked counts a failure of p and says whether it is a single
// event that others were accepted beside, again and again. A receiver that
// refuses everything gets nothing set aside.
func (b *Backend) isRefusedForGoodLocked(p *pendingBatch) bool {
	if p.events.Len() != 1 || p.lastCause == causeOther {
		return false
	}
	if p.failures > 1 && b.stats.Batches > p.batchesAtFault {
		p.refusals++
	}
	p.batchesAtFault = b.stats.Batches
	return p.refusals >= p.lastCause.refusalsForGood()
}

// setAsideLocked settles the event of p as rejected, unless the observer wants it
// to be kept. The lock is let go while the observer is asked.
func (b *Backend) setAsideLocked(p *pendingBatch, err error) bool {
	if ask := b.cfg.Observer.Rejected; ask != nil {
		event, id := p.wholeEvent(), p.events.ids[0]
		b.mu.Unlock()
		keep := !ask(id, event, err)
		b.mu.Lock()
		if keep {
			return false
		}
	}
	b.settleLocked(p, rejected)
	return true
}

// shrinkLocked makes the event of p smaller, once, and says whether that was
// possible.
func (b *Backend) shrinkLocked(p *pendingBatch, err error) bool {
	if b.cfg.Shrink == nil || p.events.Len() != 1 || p.whole != nil {
		return false
	}
	event := p.events.Event(0)
	smaller := b.cfg.Shrink(event)
	if smaller == nil {
		return false
	}
	p.whole = append([]byte(nil), event...)
	events := newEvents(len(listHead) + len(smaller) + len(listTail))
	events.Add(smaller, p.events.ids[0])
	b.pendingBytes += events.Size() - p.events.Size()
	b.pool.put(p.events)
	p.events = events
	p.failures, p.refusals = 0, 0
	p.setStuckLocked(false)
	if tell := b.cfg.Observer.Shrunk; tell != nil {
		whole := p.whole
		b.notes = append(b.notes, func() { tell(whole, err) })
	}
	return true
}

// wholeEvent is a copy of the single event of p as it was taken.
func (p *pendingBatch) wholeEvent() []byte {
	if p.whole != nil {
		return p.whole
	}
	return append([]byte(nil), p.events.Event(0)...)
}
