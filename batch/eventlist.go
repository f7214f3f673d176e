// This file is the wire form: a run of events laid out as the body of one
// audit EventList, so that a full run is sent as it stands, without a copy.

package batch

const (
	listHead = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	listTail = `]}`
)

// ID is what its owner knows an event by. It means nothing here, and stays with the
// event wherever that goes.
type ID = [2]uint64

// Events is a run of audit events as JSON, in order. It is built by
//
//	buf := ev.Begin()
//	buf = append(buf, event...)
//	ev.Commit(buf, id)
//
// and handed to a Backend, which owns it from then on if it took it. The zero
// value is not usable; Backend.NewEvents makes one. Not safe for concurrent use.
type Events struct {
	buf  []byte // listHead and the events with commas between; listTail only while sending
	ends []int  // where each event ends in buf
	ids  []ID
}

func newEvents(capacity int) *Events {
	return &Events{buf: append(make([]byte, 0, capacity), listHead...)}
}

// Begin returns the bytes to which the next event is to be appended.
func (e *Events) Begin() []byte {
	if len(e.ends) == 0 {
		return e.buf
	}
	return append(e.buf, ',')
}

// Commit takes what Begin returned with one event's JSON object appended. An
// event that was begun and is not committed leaves no trace.
func (e *Events) Commit(buf []byte, id ID) {
	e.buf = buf
	e.ends = append(e.ends, len(buf))
	e.ids = append(e.ids, id)
}

// Add appends a copy of one event's JSON object.
func (e *Events) Add(event []byte, id ID) {
	e.Commit(append(e.Begin(), event...), id)
}

// Len is the number of events.
func (e *Events) Len() int { return len(e.ends) }

// Size is the number of bytes of the request body that the events make.
func (e *Events) Size() int { return len(e.buf) + len(listTail) }

// Event returns the JSON of event i, a view that is valid until e changes.
func (e *Events) Event(i int) []byte {
	return e.buf[e.start(i):e.ends[i]]
}

// IDs are those of the events, a view that is valid until e changes.
func (e *Events) IDs() []ID { return e.ids }

// MoveLast moves the last event to the end of to.
func (e *Events) MoveLast(to *Events) {
	last := len(e.ends) - 1
	to.Add(e.Event(last), e.ids[last])
	e.truncate(last)
}

// Filter removes the events from index from on for which keep is false; the others keep
// their order. keep is called once for each, in order.
func (e *Events) Filter(from int, keep func(i int) bool) {
	n := from
	for i := from; i < len(e.ends); i++ {
		if !keep(i) {
			continue
		}
		if n < i {
			event, id := e.Event(i), e.ids[i]
			end := e.start(n) // what moves goes towards the front
			if n > 0 {
				e.buf[end-1] = ','
			}
			end += copy(e.buf[end:], event)
			e.ends[n], e.ids[n] = end, id
		}
		n++
	}
	e.truncate(n)
}

// start is where event i begins in buf.
func (e *Events) start(i int) int {
	if i == 0 {
		return len(listHead)
	}
	return e.ends[i-1] + len(",")
}

// truncate keeps the first n events.
func (e *Events) truncate(n int) {
	e.ends, e.ids = e.ends[:n], e.ids[:n]
	if n == 0 {
		e.buf = e.buf[:len(listHead)]
		return
	}
	e.buf = e.buf[:e.ends[n-1]]
}

// body returns the complete EventList. The tail stands behind the events only
// in the returned slice, so e can still grow afterwards.
func (e *Events) body() []byte {
	withTail := append(e.buf, listTail...)
	e.buf = withTail[:len(e.buf)]
	return withTail
}

// slice returns a copy of events i up to j, in memory of just its size.
func (e *Events) slice(i, j int) *Events {
	from, to := e.start(i), e.ends[j-1]
	part := newEvents(len(listHead) + to - from + len(listTail))
	part.buf = append(part.buf, e.buf[from:to]...)
	part.ends = make([]int, 0, j-i)
	part.ids = append(make([]ID, 0, j-i), e.ids[i:j]...)
	shift := len(listHead) - from
	for _, end := range e.ends[i:j] {
		part.ends = append(part.ends, end+shift)
	}
	return part
}
