// This file decides whose fault a failure is: the webhook's, or the batch's own.

package batch

import (
	"math"
	"math/rand/v2"
	"time"
)

// The one rule: a failure is the batch's own if it would be a strange coincidence
// otherwise. With p the share of tries that fail anyway, k failures in a row of one batch
// come by coincidence with p^k.
const (
	splitBelow    = 1. / 50 // coincidences: the batch goes on in parts
	suspectBelow  = 1. / 10 // it waits among the suspects
	setAsideBelow = 1e-9    // a single event is refused for good

	initialShare = 1. / 4 // p before anything is known
	lowestShare  = 0.03   // however well all goes: receivers restart
	shareWindow  = 50     // acceptances that p is learnt from

	// vouchedWindow is shorter: what is learnt must outrun what is held against an event.
	vouchedWindow = 10

	// inEarnest is from how many failures on a single event is likely to be at fault.
	inEarnest = 2

	// minTriesBeforeSetAside is how often an event was tried at least.
	minTriesBeforeSetAside = 3

	// triesBeforeShrink is how often in a row a single event was refused for its size, each time
	// with others accepted, before it is made smaller.
	triesBeforeShrink = 2

	// maxParts is how many parts a batch is split into at most.
	maxParts = 16

	// freshAcceptance is how old an acceptance may be that makes a first failure count, and
	// freshFailures how many tries may have failed since: the webhook took others a moment
	// ago.
	freshAcceptance = 2 * time.Second
	freshFailures   = 12
)

// judge knows what the webhook does with what is sent. Worked example: p is 0.03, since of
// the last fifty batches all were accepted at once. A batch that fails twice while others
// are accepted has 0.03² = 1/1,111 as its coincidence, which is below 1/50: it is split.
type judge struct {
	share        float64 // p: of failed tries among those of batches that were accepted
	acceptances  uint64
	lastAccepted time.Time // at first: when the backend was made
	failuresRow  int       // tries that failed since the last acceptance
	shareVouched float64   // the share of failed tries among those that began after an acceptance
	trialsMayGo  bool      // see wantsTrial

	lag      time.Duration // see learn
	unlearnt []acceptance
	usual    time.Duration // what an accepted request takes lately; 0 before the first
}

// evidence is what a batch has against itself.
type evidence struct {
	failures int    // tries that count: see judge.count
	counted  uint64 // acceptances when the last of them counted, or when the batch was cut
	tries    int    // all failed tries in a row, for the back-off
	vouched  int    // of them, those that began after an acceptance
}

// acceptance is what the shares are learnt from.
type acceptance struct {
	evidence
	wasVouched bool
	weight     float64 // 1, or its share of the batch that it is a part of
	due        time.Time
}

// newJudge takes the wait after a first failure.
func newJudge(initialBackoff time.Duration, now time.Time) judge {
	return judge{share: initialShare, shareVouched: initialShare, lastAccepted: now, lag: 2 * initialBackoff}
}

// vouches says whether the receiver's last answer was an acceptance: a failure that begins
// now is no after-effect of another one.
func (j *judge) vouches() bool { return j.failuresRow == 0 }

// wantsTrial says whether a single suspect is to be tried now. Half of the acceptances, by chance,
// are left for others to follow: behind two backends that take turns, one of which is bad, it is
// the request after an acceptance that always fails, whatever it has in it. Where there are no
// others, only an event that is likely to be at fault waits for them. Where most of these requests
// fail, a suspect is tried at any time, though that may not count.
func (j *judge) wantsTrial(e evidence, others bool) bool {
	return j.vouches() && (j.trialsMayGo || !others && e.failures < inEarnest) || j.shareVouched > 0.5
}

// accepted notes an accepted batch, whose failures so far were the webhook's. wasVouched is
// what vouches said when it was sent; parts is of how many it was one, 0 for a batch that was not
// split.
func (j *judge) accepted(e evidence, wasVouched bool, parts int, took time.Duration, now time.Time) {
	j.learn(now)
	a := acceptance{e, wasVouched, 1 / float64(max(1, parts)), now.Add(j.lag)}
	if e.tries > 0 {
		j.learnFrom(a)
	} else {
		j.unlearnt = append(j.unlearnt, a)
	}
	j.trialsMayGo = rand.IntN(2) == 0
	j.acceptances++
	j.lastAccepted = now
	j.failuresRow = 0
	if took > j.usual {
		j.usual = took
	} else {
		j.usual -= (j.usual - took) / 8
	}
}

// maxUnlearnt bounds the memory.
const maxUnlearnt = 10_000

// learn takes into account what was accepted at once, a little later: batches that failed in the
// same moment have to wait before they can be accepted, and without that many quick successes would
// seem to be all there is.
func (j *judge) learn(now time.Time) {
	n := 0
	for n < len(j.unlearnt) && (!j.unlearnt[n].due.After(now) || len(j.unlearnt)-n > maxUnlearnt) {
		j.learnFrom(j.unlearnt[n])
		n++
	}
	j.unlearnt = j.unlearnt[n:]
}

func (j *judge) learnFrom(a acceptance) {
	for range a.failures {
		j.share += (1 - j.share) / shareWindow
	}
	for range min(a.vouched, shareWindow) {
		j.shareVouched += (1 - j.shareVouched) / vouchedWindow
	}
	j.share -= j.share / shareWindow * a.weight
	if a.wasVouched {
		j.shareVouched -= j.shareVouched / vouchedWindow * a.weight
	}
}

// count notes a failed try, and whether it counts against the batch: one does if something
// was accepted since the last that did. While nothing is accepted nobody is at fault.
// Of a single suspect only those count that were vouched for: an event that crashes the
// receiver must not take its neighbours along.
func (j *judge) count(e *evidence, c cause, isSingle, vouched bool, now time.Time) {
	j.learn(now)
	j.failuresRow++
	e.tries++
	if vouched {
		e.vouched++
	}
	if !c.mayBeTheBatch() || j.acceptances == 0 {
		return
	}
	if isSingle {
		if !vouched || j.acceptances == e.counted {
			return
		}
	} else if j.acceptances == e.counted && (e.failures > 0 || j.failuresRow > freshFailures || now.Sub(j.lastAccepted) >= freshAcceptance) {
		return
	}
	e.failures++
	e.counted = j.acceptances
}

// doubt is −ln p^k: how strange the failures would be as a coincidence.
func (j *judge) doubt(e evidence) float64 {
	return -float64(e.failures) * math.Log(max(lowestShare, j.share, j.shareVouched))
}

// priorOfPart is the doubt that a part brings along: one of m is likely the bad one, so it
// is split again below 1/(2m).
func priorOfPart(parts int) float64 {
	return max(0, math.Log(1/splitBelow/2/float64(parts)))
}

// isBelow says whether the coincidence of that doubt is below the bound.
func isBelow(doubt, bound float64) bool { return doubt >= -math.Log(bound)-1e-9 }

// parts is how many parts a batch is split into: two, or more if failing takes much longer
// than success, as it does where nothing answers.
func (j *judge) parts(failing time.Duration) int {
	if j.usual == 0 {
		return 2
	}
	return int(min(max(failing/max(j.usual, time.Millisecond), 2), maxParts))
}
