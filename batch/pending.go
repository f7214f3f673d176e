// This file is a batch on its way.

package batch

import "time"

// pendingBatch is a batch from the cut until it is settled.
type pendingBatch struct {
	id     uint64
	views  []view
	events int
	bytes  int // what they add to a body

	evidence           // what is held against it
	suspect  bool      // refused for its own fault, or a part of what was
	due      time.Time // of the next try
	tooLarge int       // 413s in a row
	original []byte    // of a single event, as it was submitted, once it was made smaller
	lastTry
	history
	waiting
}

// lastTry is what the last try, or the one under way, was and became.
type lastTry struct {
	sentAt      time.Time
	took        time.Duration // of one that failed
	cause       cause         // of that failure
	isProbe     bool          // sent while the gate was closed
	wasVouched  bool          // see judge.vouches, when it was sent
	slowTimer   *time.Timer   // while it is under way
	countedSlow bool          // it is under way for longer than Config.SlowAfter
}

// history is where a batch comes from. Worked example: a scout of 240 kB fails twice. It
// becomes two batches with parts 2 and the same whole, 240 kB; when both are accepted, 240 kB
// is too large.
type history struct {
	firstFailed  time.Time // zero: never
	failedSince  uint64    // acceptances then
	parts        int       // it is one of so many parts of a batch at fault; 0: none
	whole        *pair     // which that was
	splitInto    *pair     // what it became, once it was split
	outagesBegun int       // outages that its failure came first of
	scout        bool      // larger than the limit, to try the size
	isCut        bool      // taken from a batch that was cut
	isSmall      bool      // made smaller to be a probe
}

// waiting is a batch's place in the queue.
type waiting struct {
	in *batchHeap // nil: nowhere
	at int
}

func newBatch(id uint64, views ...view) *pendingBatch {
	p := &pendingBatch{id: id}
	p.setViews(views)
	return p
}

func (p *pendingBatch) setViews(views []view) {
	p.views, p.events, p.bytes = views, 0, 0
	for _, v := range views {
		p.events += v.len()
		p.bytes += v.bytes()
	}
}

// body is the number of bytes of the request.
func (p *pendingBatch) body() int { return bodyOverhead + p.bytes }

// costlyAfter is what the last try of a suspect took that holds a slot for long.
const costlyAfter = time.Second

func (p *pendingBatch) isCostly() bool { return p.suspect && p.took >= costlyAfter }

// isSingle says whether p is a single suspect: its failures may set it aside.
func (p *pendingBatch) isSingle() bool { return p.suspect && p.events == 1 }

// isTrial says whether p is one that has failed by itself. One that has not is likely to
// pass, and waits for nobody to vouch for it.
func (p *pendingBatch) isTrial() bool { return p.isSingle() && p.tries > 0 }

// cutViews takes the first n events off p, and returns them.
func (p *pendingBatch) cutViews(n int) (first []view) {
	rest := p.views
	for n > 0 {
		v := rest[0]
		if n < v.len() {
			f, r := v.cut(n)
			first = append(first, f)
			rest[0] = r
			break
		}
		first, rest = append(first, v), rest[1:]
		n -= v.len()
	}
	p.setViews(rest)
	return first
}

// fit is how many of the first events make a body within the bounds: at least one.
func (p *pendingBatch) fit(maxEvents, maxBody int) (n int) {
	for _, v := range p.views {
		if n > 0 && (n >= maxEvents || v.run.events.ends[v.from]-v.run.events.start(v.from)+1+bodyOverhead > maxBody) {
			break
		}
		k := v.fit(maxEvents-n, maxBody)
		n += k
		if k < v.len() {
			break
		}
		maxBody -= v.bytes()
	}
	return n
}

// ids are those of all events.
func (p *pendingBatch) ids() []ID {
	if len(p.views) == 1 {
		return p.views[0].ids()
	}
	ids := make([]ID, 0, p.events)
	for _, v := range p.views {
		ids = append(ids, v.ids()...)
	}
	return ids
}

// event is a view of the first event.
func (p *pendingBatch) event() []byte { return p.views[0].run.events.Event(p.views[0].from) }

// submitted is a copy of the single event of p as it was submitted.
func (p *pendingBatch) submitted() []byte {
	if p.original != nil {
		return p.original
	}
	return append([]byte(nil), p.event()...)
}
