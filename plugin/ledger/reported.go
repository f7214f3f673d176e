package ledger

import "sync"

// This file is the set of what was reported.

// reportedPerGeneration is how many reports a Reported remembers at least, and half of
// how many at most.
const reportedPerGeneration = 1 << 16

// Reported remembers what was reported, so that a chunk that is read again reports
// nothing twice. It is apart from the Ledger: no event is forgotten for it. The zero
// value is ready. It is safe for concurrent use.
type Reported struct {
	mu             sync.Mutex
	younger, older map[ID]struct{}
}

// First says whether id was not reported yet, or so long ago that it is forgotten, and
// remembers it.
func (r *Reported) First(id ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, young := r.younger[id]
	_, old := r.older[id]
	if young {
		return false
	}
	if len(r.younger) >= reportedPerGeneration {
		r.older, r.younger = r.younger, nil
	}
	if r.younger == nil {
		r.younger = map[ID]struct{}{}
	}
	r.younger[id] = struct{}{}
	return !old
}
