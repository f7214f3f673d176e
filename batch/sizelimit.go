// This file is the size of body that the receiver is known to take.

package batch

import "math"

const (
	// smallestLimit bounds how small batches are made for their size, and smallestStep how
	// little more is tried, so that one more event fits.
	smallestLimit = 800
	smallestStep  = 2048

	// chanceOfSize is how unlikely it must be that bodies failed by chance whose parts all
	// passed, until it is their size.
	chanceOfSize = 1e-5

	// What is learnt from a size that was just found is soon looked at again, then rarely:
	// acceptances between two tries of a larger body.
	scoutSoon = 10
	scoutLate = 150
)

// sizeLimit learns how large a body may be. A size is refused for certain by a 413, and
// otherwise learnt from pairs: bodies that failed, and whose parts were all accepted, with
// nothing as large accepted in between. Larger ones are tried by one body at a time, the
// scout: twice as large until a size is known to be refused, then between the two.
type sizeLimit struct {
	configured int
	limit      int // bytes of a body, at most
	refused    int // bytes that are known to be refused; 0: none

	largest   []acceptedSize // see acceptedAsLarge
	doubt     float64        // that the sizes of pairs are chance
	suspected int            // of them, the smallest
	part      int            // bytes of its parts

	scouting  bool
	nextScout uint64 // in acceptances
}

// pair is a batch that was split and the parts it became.
type pair struct {
	size    int // of the body that failed
	part    int // of one of the parts, roughly
	left    int // parts that are not accepted yet
	doubt   float64
	broken  bool   // a part was not accepted as it is, but split again, cut or set aside
	since   uint64 // acceptances when it failed first
	outages int    // that there had been
	scout   bool
}

func newSizeLimit(configured int) sizeLimit {
	return sizeLimit{configured: configured, limit: configured}
}

// scoutSize is how large the next fresh body may be although the limit is smaller, and
// whether that is to be tried now.
func (l *sizeLimit) scoutSize(acceptances uint64) (int, bool) {
	switch {
	case l.scouting || l.limit >= l.configured:
		return 0, false
	case l.refused == 0:
		return min(2*l.limit, l.configured), true
	case l.refused*4 > l.limit*5:
		return int(math.Sqrt(float64(l.limit) * float64(l.refused))), true
	case acceptances >= l.nextScout:
		return min(max(l.limit*5/4, l.limit+smallestStep), l.configured), true
	}
	return 0, false
}

// isTooLarge says whether a body of that size need not be tried.
func (l *sizeLimit) isTooLarge(size int) bool { return l.refused > 0 && size >= l.refused }

// accepted notes a body that was accepted.
func (l *sizeLimit) accepted(size int, scout bool, acceptances uint64) {
	if isAsLarge(size, l.suspected) {
		l.doubt = 0
	}
	for n := len(l.largest); n > 0 && l.largest[n-1].size <= size; n = len(l.largest) {
		l.largest = l.largest[:n-1]
	}
	if len(l.largest) == maxLargest {
		l.largest = append(l.largest[:0], l.largest[1:]...)
	}
	l.largest = append(l.largest, acceptedSize{size, acceptances})
	if scout {
		l.scouting = false
	}
	if size > l.limit {
		l.limit = min(size, l.configured)
		l.nextScout = acceptances
		if l.limit >= l.refused {
			l.refused = 0
		}
	}
	if isAsLarge(l.limit, l.configured) {
		l.limit, l.refused = l.configured, 0
	}
}

// isAsLarge says whether a body that was accepted is about as large as the other.
func isAsLarge(accepted, other int) bool { return accepted*20 >= other*19 }

// acceptedSize is a body that was accepted, and the acceptances up to then.
type acceptedSize struct {
	size int
	at   uint64
}

// maxLargest bounds the accepted bodies that are remembered: each is larger than all that
// were accepted after it, so that there are few.
const maxLargest = 64

// acceptedAsLarge says whether a body about as large was accepted since then.
func (l *sizeLimit) acceptedAsLarge(size int, since uint64) bool {
	for _, a := range l.largest {
		if a.at > since && isAsLarge(a.size, size) {
			return true
		}
	}
	return false
}

// partAccepted notes that a part of a body that failed was accepted. Once all are, and nothing as
// large was meanwhile, its size may be why.
func (l *sizeLimit) partAccepted(w *pair, outages int, acceptances uint64) {
	w.left--
	if w.left > 0 || w.broken || w.outages != outages || w.size <= smallestLimit || l.acceptedAsLarge(w.size, w.since) {
		return
	}
	if w.scout {
		if w.size > l.limit {
			l.refused, l.nextScout = w.size, acceptances+scoutLate
		}
		return
	}
	if w.size > l.limit {
		return
	}
	if l.doubt == 0 || w.size < l.suspected {
		l.suspected, l.part = w.size, w.part
	}
	l.doubt += w.doubt
	if isBelow(l.doubt, chanceOfSize) {
		l.doubt, l.refused = 0, l.suspected
		l.limit = max(min(l.limit, l.part, l.refused*9/10), smallestLimit)
		l.nextScout = acceptances + scoutSoon
	}
}

// tooLarge notes a body that was refused for its size in so many words.
func (l *sizeLimit) tooLarge(size int, scout bool, acceptances uint64) {
	if l.refused == 0 || size < l.refused || l.limit >= size {
		l.refused = size
	}
	if scout {
		l.nextScout = acceptances + scoutLate
	}
	if l.limit >= size {
		l.limit = max(smallestLimit, size/2)
		l.nextScout = acceptances + scoutSoon
	}
}

// slowFailure notes a body within the limit that failed slowly, and says whether it is too large
// now. A limit on time, or on events, has no exact size: where one was learnt, each such failure
// near it lowers it a little, and scouts raise it again.
func (l *sizeLimit) slowFailure(size int) bool {
	if l.limit == l.configured || size > l.limit || size*5 < l.limit*4 {
		return false
	}
	l.limit = max(size*9/10, smallestLimit)
	return size > l.limit
}

// scoutFailed notes that a scout failed, which changes nothing but when the next one may go.
func (l *sizeLimit) scoutFailed(acceptances uint64) {
	l.scouting = false
	l.nextScout = max(l.nextScout, acceptances+scoutSoon)
}

// isAbove says whether the probe that ended an outage, of so many bytes and made small, leaves
// open whether the receiver accepts a body of that size that cannot be cut.
func (l *sizeLimit) isAbove(size, probe, events int, small bool) bool {
	return small && events == 1 && size > 2*probe
}

// startFrom makes the size of the probe that ended an outage the one to begin with.
func (l *sizeLimit) startFrom(size int) {
	l.limit = max(min(l.limit, size), smallestLimit)
}
