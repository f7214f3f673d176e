// This file is the webhook's health: when it counts as slow or down, and how
// it is probed until it answers again.

package batch

import "time"

// Health is what the backend thinks of the webhook.
type Health int

const (
	// Healthy is the state of a webhook of which nothing bad is known.
	Healthy Health = iota
	// Slow: a request has been under way for longer than Config.SlowAfter.
	// Sending goes on.
	Slow
	// Down: two different batches have failed and no other request is under way, or
	// three requests have, and nothing has succeeded since. (Behind a balancer the
	// failures of one bad server come before the slower successes of the others.)
	// Single events that were found out while others were accepted do not count, and
	// the parts of refused batches, half of which must fail, count only when there
	// are many in a row. One probe at a time is sent until one is accepted.
	Down
)

// String is the state in one word, for log lines.
func (h Health) String() string {
	switch h {
	case Slow:
		return "slow"
	case Down:
		return "down"
	}
	return "healthy"
}

// failuresInARow is how many failures in a row make the webhook count as down
// whatever else is under way, be they of the only batch there is: one poison batch
// must not do it at once.
const failuresInARow = 3

// failuresOfParts is the same for the parts of refused batches, of which the bad
// half always fails: it bounds the splitting when the webhook goes down meanwhile.
const failuresOfParts = 8

// health is guarded by Backend.mu.
type health struct {
	state Health
	slow  int  // requests under way for longer than Config.SlowAfter
	down  bool // see Down

	// Since the last success, isolated events left out:
	streak  int    // failures
	origin  uint64 // of the first of them
	several bool   // they were of different batches
	parts   int    // failures of parts of refused batches, which are expected

	// While down:
	probing   bool      // a probe is under way
	probes    int       // failed so far
	probeDue  time.Time // of the next one
	probeSize int       // events in a probe that is made smaller; 0: no answer made size suspect
	refused   bool      // the last answer that made it suspect is one of a receiver that stored nothing
	shrinking uint64    // origin of the batch that smaller probes are taken from

	// Size of the smaller probe that ended the last outage, if its size may have been
	// why it was accepted; 0: larger ones have been since.
	perhapsWorked int
}

// Health is the webhook's health, and a channel that is closed when it changes.
func (b *Backend) Health() (Health, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health.state, b.news
}

// WantsProbe says whether the webhook is down and the backend has nothing to
// probe it with but batches that have failed already, so that it takes one more
// run of events all the same: else the batches that failed for their own
// fault, if all that is left are such, would keep the gates closed for ever.
func (b *Backend) WantsProbe() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wantsProbeLocked()
}

func (b *Backend) wantsProbeLocked() bool {
	return b.health.down && !b.health.probing && b.queue.len() == 0 && b.open == nil
}

// probeDueLocked says when the next probe may go. What is known to be down
// because of a single batch alone is probed at once with another one.
func (b *Backend) probeDueLocked(now time.Time) time.Time {
	if p := b.queue.peek(); !b.health.several && p != nil && p.origin != b.health.origin {
		return now
	}
	return b.health.probeDue
}

// takeProbeLocked takes the batch for the next probe: one that has not failed,
// or else the one whose last try is longest ago; shrunk if the last answers
// made size suspect. Nil if nothing is pending.
//
// A receiver may have stored what it answered 500 to or did not answer, and can
// drop the repeats only if they are byte for byte what it has. After such answers
// only every second probe is made smaller, and always from the same batch: all
// others are repeated as they were.
func (b *Backend) takeProbeLocked(now time.Time) *pendingBatch {
	h := &b.health
	shrinks := h.probeSize > 0 && (h.refused || h.probes%2 == 1)
	var p *pendingBatch
	if shrinks && !h.refused {
		p = b.failed.popLeastRecent(func(p *pendingBatch) bool { return p.origin == h.shrinking })
	}
	if p == nil {
		p = b.queue.pop()
	}
	if p == nil {
		p = b.failed.popLeastRecent(nil)
	}
	if p == nil {
		return nil
	}
	if shrinks && p.events.Len() > h.probeSize {
		h.shrinking = p.origin
		p.lastTry = now // the rest has its turn later
		p = b.splitOffLocked(p, h.probeSize)
		p.shrunk = true
	}
	h.probing = true
	p.isProbe = true
	return p
}

// succeededLocked notes an accepted batch: whatever was thought of the webhook,
// it works.
func (b *Backend) succeededLocked(p *pendingBatch, now time.Time) {
	h := &b.health
	h.streak, h.several, h.parts = 0, false, 0
	if p.isProbe {
		h.probing = false
	}
	if h.down {
		h.down, h.probes, h.probeSize, h.shrinking = false, 0, 0, 0
		if p.shrunk {
			b.learnFromProbeLocked(p)
		}
		b.failed.releaseAll(now, b.isSuspectLocked)
	}
	if p.sizeWhenSent > 2*h.perhapsWorked {
		h.perhapsWorked = 0
	}
	b.updateHealthLocked()
}

// learnFromProbeLocked notes the size of a smaller probe that was accepted. Where
// the larger ones were not refused in so many words, the outage may just have
// ended with it: they are tried once more as they were.
func (b *Backend) learnFromProbeLocked(p *pendingBatch) {
	h := &b.health
	if !h.refused && h.perhapsWorked == 0 {
		h.perhapsWorked = p.sizeWhenSent
		return
	}
	h.perhapsWorked = 0
	b.learned.worked(p.sizeWhenSent)
}

// failedLocked notes a failed try of p.
func (b *Backend) failedLocked(p *pendingBatch, c cause, err error, now time.Time) {
	h := &b.health
	switch {
	case b.isIsolatedLocked(p):
	case p.isPart:
		h.parts++
	default:
		h.streak++
		if h.streak == 1 {
			h.origin = p.origin
		}
		h.several = h.several || h.origin != p.origin
	}
	if p.isProbe {
		h.probing = false
		h.probes++
	}
	goesDown := !h.down && (h.several && b.active == 0 || h.streak >= failuresInARow || h.parts >= failuresOfParts)
	if goesDown {
		h.down, h.probes, h.probeSize, h.shrinking = true, 0, 0, 0
		if !h.several && h.parts == 0 {
			h.probes = p.failures - 1 // the only one goes on with its own back-off
		}
	}
	if p.isProbe || goesDown {
		h.probeDue = now.Add(backoff(b.cfg.InitialBackoff, b.cfg.MaxBackoff, h.probes+1, err))
		h.shrinkLocked(c, p.events.Len())
	}
	b.updateHealthLocked()
}

// shrinkLocked notes that a probe of n events failed with that cause, as far as its
// size may explain it. Where only every second probe is smaller it is so by a
// quarter: as fast.
func (h *health) shrinkLocked(c cause, n int) {
	if !c.sizeMayExplain() {
		return
	}
	h.refused = c != causeServer
	part := n / 4
	if h.refused {
		part = n / 2
	}
	if h.probeSize == 0 || part < h.probeSize {
		h.probeSize = max(1, part)
	}
}

// isSuspectLocked says whether p failed while another batch was accepted.
func (b *Backend) isSuspectLocked(p *pendingBatch) bool {
	return b.stats.Batches > p.successesAt+1
}

// watchSlowLocked makes the webhook count as slow when p is under way for too
// long.
func (b *Backend) watchSlowLocked(p *pendingBatch) {
	p.tries++
	try := p.tries
	p.slowTimer = time.AfterFunc(b.cfg.SlowAfter, func() {
		b.mu.Lock()
		defer b.unlock()
		if p.underWay && p.tries == try {
			p.countedSlow = true
			b.health.slow++
			b.updateHealthLocked()
		}
	})
}

func (b *Backend) unwatchSlowLocked(p *pendingBatch) {
	p.slowTimer.Stop()
	if p.countedSlow {
		p.countedSlow = false
		b.health.slow--
	}
}

// updateHealthLocked tells those who wait, and the observer, when the state is
// another one.
func (b *Backend) updateHealthLocked() {
	state := Healthy
	switch {
	case b.health.down:
		state = Down
	case b.health.slow > 0:
		state = Slow
	}
	from := b.health.state
	if state == from {
		return
	}
	b.health.state = state
	close(b.news)
	b.news = make(chan struct{})
	if tell := b.cfg.Observer.Health; tell != nil {
		b.notes = append(b.notes, func() { tell(from, state) })
	}
}

// unlock lets the lock go and then tells the observer what has happened.
func (b *Backend) unlock() {
	notes := b.notes
	b.notes = nil
	b.mu.Unlock()
	for _, tell := range notes {
		tell()
	}
}
