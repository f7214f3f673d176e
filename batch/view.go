// This file is the part of a run of events that a batch has: cutting and splitting copy
// nothing, and what is no longer worth its memory moves to memory of its own.

package batch

import "sort"

// bodyOverhead is what a request body has beside its events and the comma after each.
const bodyOverhead = len(listHead) + len(listTail) - 1

// run is events as they were submitted. The batches that are cut from it share its memory,
// which goes back to the pool once the last of them is settled.
type run struct {
	events *Events // nobody changes them once a part was cut off
	owner  *Delivery
	views  int // that are not settled
}

// view is the events of a run from index from up to, not including, index to.
type view struct {
	run      *run
	from, to int
}

func (v view) len() int { return v.to - v.from }

// bytes is what the events add to a body: their JSON and a comma each. The bytes of the
// parts of a view add up to its own.
func (v view) bytes() int {
	e := v.run.events
	return e.ends[v.to-1] - e.start(v.from) + 1
}

func (v view) ids() []ID { return v.run.events.ids[v.from:v.to] }

// fit is how many of the first events make a body within the bounds: at least one.
func (v view) fit(maxEvents, maxBody int) int {
	e := v.run.events
	last := e.start(v.from) + maxBody - bodyOverhead - 1
	n := sort.Search(v.len(), func(i int) bool { return e.ends[v.from+i] > last })
	return max(1, min(n, maxEvents))
}

// cut takes the first n events off.
func (v view) cut(n int) (first, rest view) {
	v.run.views++
	return view{v.run, v.from, v.from + n}, view{v.run, v.from + n, v.to}
}

// isWhole says whether the view is all of its run, so that no other one exists.
func (v view) isWhole() bool { return v.from == 0 && v.to == v.run.events.Len() }

// appendTo appends copies of the events to e.
func (v view) appendTo(e *Events) {
	from := v.run.events
	buf := e.Begin()
	start := from.start(v.from)
	shift := len(buf) - start
	e.buf = append(buf, from.buf[start:from.ends[v.to-1]]...)
	for _, end := range from.ends[v.from:v.to] {
		e.ends = append(e.ends, end+shift)
	}
	e.ids = append(e.ids, v.ids()...)
}

// detached is a copy in memory of just its size.
func (v view) detached() view {
	events := v.run.events.slice(v.from, v.to)
	return view{&run{events: events, owner: v.run.owner, views: 1}, 0, events.Len()}
}

// wastes says whether the view holds much more memory than its events have. What shares
// its run counts as if it were settled: it soon is.
func (v view) wastes() bool { return 2*v.bytes()+1024 < cap(v.run.events.buf) }
