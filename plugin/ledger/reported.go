package ledger

// This file is the set of what was reported.

// maxReported is how many reports a Reported remembers at least.
const maxReported = 1 << 16

// Reported remembers what was reported, so that a chunk that is read again reports
// nothing twice. It is apart from the Ledger: no event is forgotten for it. The zero
// value is ready; it is for one goroutine at a time.
type Reported struct{ younger, older map[ID]struct{} }

// First says whether id was not reported yet, or so long ago that it is forgotten, and
// remembers it.
func (r *Reported) First(id ID) bool {
	_, young := r.younger[id]
	_, old := r.older[id]
	if young {
		return false
	}
	if len(r.younger) >= maxReported {
		r.older, r.younger = r.younger, nil
	}
	if r.younger == nil {
		r.younger = map[ID]struct{}{}
	}
	r.younger[id] = struct{}{}
	return !old
}
