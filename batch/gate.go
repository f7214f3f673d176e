// This file is the gate between the intake and the webhook: open, slow, or closed while the
// webhook is down, and the probes that open it again.

package batch

import (
	"math"
	"time"
)

// Health is what the backend thinks of the webhook.
type Health int

const (
	// Healthy is the state of a webhook of which nothing bad is known: the gate is open.
	Healthy Health = iota
	// Slow: a request has been under way for longer than Config.SlowAfter. Sending goes
	// on. Requests of suspects do not count.
	Slow
	// Down: at least two different batches have failed since something was accepted, more
	// often than chance explains. The gate is closed: one probe at a time goes out, one a
	// back-off, until one is accepted.
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

const (
	// closeAbove is the doubt at which the gate closes: a coincidence of one in a million,
	// which is four failures in a row of a webhook that hardly ever fails. Requests under way may
	// still say otherwise for quietTime; at closeAtOnceAbove nobody waits for them.
	closeAbove       = 14.
	closeAtOnceAbove = 40.
	quietTime        = 2 * time.Second

	// Who is expected to fail says little: one of two parts of a batch at fault, and an
	// event that is larger than a body may be and cannot be cut.
	doubtOfPart      = math.Ln2
	doubtOfOversized = 0.2

	// highestUsual bounds how usual failures may become: a gate that never closed would
	// take in all that comes while the webhook is down.
	highestUsual = 0.4

	// maxFailuresLearnt is how many of the failures between two acceptances count for what
	// is usual: an outage is not.
	maxFailuresLearnt = 20

	// restFactor and longestRest are how long the batch waits whose failure began more
	// than one outage, in lengths of the last one, and at most.
	restFactor  = 3
	longestRest = 5 * time.Minute
)

// gate decides whether the webhook is up. Suspects say nothing about that, except that
// of two parts one is expected to pass.
type gate struct {
	slow int // requests under way for longer than Config.SlowAfter

	usual float64 // share of failures among the tries of batches that are no suspects

	// Since the last acceptance:
	doubt    float64       // Σ −ln p of the failures
	failures int           // of batches that are no suspects
	firstID  uint64        // the batch whose failure came first, 0: no failure
	several  bool          // different batches failed
	first    *pendingBatch // of those whose fault it may be, the one that was sent first; nil if nothing was accepted before

	closed   bool
	closings int
	closedAt time.Time

	// While closed:
	probing   bool      // a probe is under way
	probes    int       // failed so far
	backoffs  int       // of them, those that made the wait longer
	due       time.Time // of the next probe
	probeSize int       // bytes of the body of a probe that is made smaller; 0: the first is not
	refused   bool      // one was refused with nothing stored, perhaps for its size
	shrinks   bool      // the last failure may be one of size
}

func newGate() gate { return gate{usual: initialShare} }

func (g *gate) state() Health {
	switch {
	case g.closed:
		return Down
	case g.slow > 0:
		return Slow
	}
	return Healthy
}

// failed notes a failed try, and whether the gate closes for it. When it is closed,
// probeFailed follows.
func (g *gate) failed(p *pendingBatch, oversized bool, acceptances uint64, lastAccepted, now time.Time) (closes bool) {
	if g.firstID == 0 {
		g.firstID = p.id
	}
	g.several = g.several || p.id != g.firstID
	// What was sent after the one that is the reason may be answered sooner.
	if acceptances > 0 && !g.closed && p.cause.mayBeTheBatch() && (g.first == nil || p.sentAt.Before(g.first.sentAt)) {
		g.first = p
	}
	switch {
	case p.suspect && p.failures > 0:
	case oversized:
		g.doubt += doubtOfOversized
	case p.suspect:
		g.doubt += doubtOfPart
	default:
		g.failures++
		g.doubt -= math.Log(min(max(lowestShare, g.usual), highestUsual))
	}
	if g.closed || !g.several || g.doubt < closeAbove {
		return false
	}
	if now.Sub(lastAccepted) < quietTime && g.doubt < closeAtOnceAbove {
		return false
	}
	g.closed, g.closedAt = true, now
	g.closings++
	g.probing, g.probes, g.backoffs, g.probeSize, g.refused = false, 0, 0, 0, false
	return true
}

// probeFailed notes what closed the gate, or the probe that failed. The next one comes
// after wait(n), n being how many waits there were in a row.
//
// A receiver that refuses a body may do so for its size: probes get smaller until one
// passes, an eighth each time, and do not wait longer for that.
func (g *gate) probeFailed(size, events int, c cause, now time.Time, wait func(n int) time.Duration) {
	wasSmall := g.takesSmaller()
	if g.probing {
		g.probes++
	}
	if !(g.probing && wasSmall && events > 1 && c.mayBeTheBatch()) {
		g.backoffs++
	}
	g.probing = false
	g.due = now.Add(wait(g.backoffs))
	g.refused, g.shrinks = g.refused || c.storedNothing(), c.mayBeTheBatch()
	if n := max(1, size/8); g.probeSize == 0 || n < g.probeSize {
		g.probeSize = n
	}
}

// takesSmaller says whether the next probe is a small one. A receiver may have stored what
// it answered 500 to, or not at all, and can drop the repeat only if it is byte for byte
// the same: every second probe repeats an earlier batch as it was, unless such batches are
// refused in so many words.
func (g *gate) takesSmaller() bool {
	return g.probeSize > 0 && (g.probes%2 == 1 || g.refused)
}

// accepted notes an accepted batch, and says whether the gate opens for it.
func (g *gate) accepted(p *pendingBatch) (opens bool) {
	for range min(g.failures, maxFailuresLearnt) {
		g.usual += (1 - g.usual) / shareWindow
	}
	if !p.suspect {
		g.usual -= g.usual / shareWindow
	}
	opens = g.closed
	g.closed, g.probing, g.probes, g.probeSize = false, false, 0, 0
	return opens
}

// forgetFailures begins again after an acceptance.
func (g *gate) forgetFailures() {
	g.doubt, g.failures, g.first, g.firstID, g.several = 0, 0, nil, 0, false
}

// rest is how long a batch waits that is, or is part of, the one that an outage which ended now
// began with. Who begins two is likely to be the reason.
func (g *gate) rest(p *pendingBatch, now time.Time) time.Duration {
	if g.first == nil || p != g.first && (p.whole == nil || p.whole != g.first.splitInto) {
		return 0
	}
	p.outagesBegun++
	if p.outagesBegun < 2 {
		return 0
	}
	return min(restFactor*now.Sub(g.closedAt), longestRest)
}
