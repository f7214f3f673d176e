// This file is what becomes of suspects, the batches that were refused for their own
// fault: how much of the buffer they may hold, and how single events leave it.

package batch

import "time"

// suspectLocked puts p among the suspects, and unsuspectLocked takes it out again.
func (b *Backend) suspectLocked(p *pendingBatch) {
	if p.suspect {
		return
	}
	p.suspect = true
	b.countSuspectLocked(p, 1)
}

func (b *Backend) unsuspectLocked(p *pendingBatch) {
	if p.suspect {
		p.suspect = false
		b.countSuspectLocked(p, -1)
	}
}

func (b *Backend) countSuspectLocked(p *pendingBatch, sign int) {
	b.suspects.events += sign * p.events
	b.suspects.bytes += sign * p.bytes
	for _, v := range p.views {
		if d := v.run.owner; d != nil {
			d.suspects += sign * v.len()
			d.stuckIfSoLocked()
		}
	}
}

// evictBelow is how strange the failures of a single event must be as a coincidence if it
// is to be set aside early, as nobody else has it.
const evictBelow = 1e-6

// makeRoomLocked sees to it that suspects hold half of the buffer at most, so that what fails
// for ever never keeps out what would pass. Single events go beyond that: those with an owner
// back to it, who has them and brings them again, those first that were tried last; those without
// one aside, the most refused first, if little doubt is left. The parts of a batch stay: most of
// their events are good.
func (b *Backend) makeRoomLocked(now time.Time) {
	for b.suspects.events > b.cfg.BufferSize/2 || b.suspects.bytes > b.cfg.BufferBytes/2 {
		p := b.queue.returnable()
		if p != nil && p.views[0].run.owner == nil {
			if p = b.queue.mostRefused(); !isBelow(b.judge.doubt(p.evidence), evictBelow) {
				p = nil
			}
		}
		if p == nil {
			return
		}
		b.evictLocked(p, now)
	}
}

// evictLocked lets a single suspect that waits leave the buffer before its fault is certain.
func (b *Backend) evictLocked(p *pendingBatch, now time.Time) {
	b.queue.remove(p)
	b.leavesLocked(p)
	if p.views[0].run.owner == nil {
		p.due = now.Add(b.cfg.MaxBackoff)
		b.setAsideLocked(p, errNoRoom)
		return
	}
	b.known.remember(p.ids()[0], known{p.evidence, p.due, p.firstFailed, p.took, p.cause})
	b.partWithLocked(p, returned)
}

// leavesLocked notes that p will not be sent any more as it is.
func (b *Backend) leavesLocked(p *pendingBatch) {
	b.unsuspectLocked(p)
	if p.scout {
		p.scout = false
		b.size.scoutFailed(b.judge.acceptances)
	}
	if p.whole != nil {
		p.whole.broken = true
		p.whole = nil
	}
}

// setAsideLocked asks the observer to take the single event of p, and settles it as
// rejected if it does. Until then p is in no queue.
func (b *Backend) setAsideLocked(p *pendingBatch, err error) {
	b.leavesLocked(p)
	ask := b.cfg.Observer.Rejected
	if ask == nil {
		b.settleLocked(p, rejected)
		return
	}
	id, event := p.ids()[0], p.submitted()
	b.noteLocked(func() {
		isKept := b.guard(func() bool { return !ask(id, event, err) }, true)
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case !isKept:
			b.settleLocked(p, rejected)
		case b.overtime:
			b.giveUpLocked(p)
			return
		default:
			b.suspectLocked(p)
			now := time.Now()
			p.due = now.Add(backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, max(p.tries, 1), nil))
			b.queue.add(p, now)
		}
		b.dispatchLocked()
	})
}

// shrinkLocked makes the event of p smaller, once, and says whether that was
// possible.
func (b *Backend) shrinkLocked(p *pendingBatch, err error) bool {
	if b.cfg.Shrink == nil || p.original != nil {
		return false
	}
	smaller := b.cfg.Shrink(p.event())
	if smaller == nil {
		return false
	}
	original := p.submitted()
	b.leavesLocked(p)
	old := p.views[0]
	events := newEvents(len(listHead) + len(smaller) + len(listTail))
	events.Add(smaller, p.ids()[0])
	v := view{&run{events: events, owner: old.run.owner, views: 1}, 0, 1}
	b.pendingBytes += v.bytes() - old.bytes()
	b.replaceLocked(p, []view{v})
	p.setViews(p.views)
	p.original, p.evidence = original, evidence{counted: b.judge.acceptances}
	p.parts, p.tooLarge, p.took, p.due = 0, 0, 0, time.Time{}
	if tell := b.cfg.Observer.Shrunk; tell != nil {
		b.noteLocked(func() { tell(original, err) })
	}
	return true
}

// known is what is held against an event that went back to its owner.
type known struct {
	evidence
	due, firstFailed time.Time
	took             time.Duration
	cause            cause
}

// maxKnown bounds the events that went back and are remembered, twice: the older half is
// forgotten when the younger is full.
const maxKnown = 50_000

// returnedEvents remembers what is held against events that went back, until they come again.
type returnedEvents struct {
	younger, older map[ID]known
}

func (r *returnedEvents) isEmpty() bool { return len(r.younger)+len(r.older) == 0 }

func (r *returnedEvents) remember(id ID, k known) {
	if len(r.younger) >= maxKnown {
		r.older, r.younger = r.younger, nil
	}
	if r.younger == nil {
		r.younger = map[ID]known{}
	}
	r.younger[id] = k
}

// recall returns what is known of id, and forgets it.
func (r *returnedEvents) recall(id ID) (k known, ok bool) {
	for _, m := range []map[ID]known{r.younger, r.older} {
		if k, ok = m[id]; ok {
			delete(m, id)
			return k, true
		}
	}
	return known{}, false
}
