package record

// This file walks the items of an EventList, in msgpack or in a raw line.

// list is the EventList that the walk is in.
type list struct {
	open   bool
	offset int    // of the record that holds it
	item   int    // index of the next item in the list
	line   []byte // that holds the list; nil for msgpack
	next   int    // index of the next item in line, or in the chunk
	left   int    // items left, in msgpack
}

// mapItem reads the next item of the open list in msgpack.
func (r *Reader) mapItem(dst []byte) ([]byte, progress) {
	l := &r.list
	if l.left == 0 {
		r.list = list{}
		return dst, skipped
	}
	if r.beforeRecord != nil {
		r.beforeRecord(l.offset, l.item)
	}
	var f fields
	from := l.next
	r.convert.replaced = false
	out, to, reason := r.convert.event(dst, r.chunk, from, &f, false, "")
	if reason == none && !f.isEvent() {
		reason = f.refusal(NotAuditEvent)
	}
	if reason != none {
		r.refuseItem(reason, skip(r.chunk, from, 1))
		return out[:len(dst)], skipped
	}
	r.advance(to)
	r.appended(Event{Source: r.source(from, to)})
	return out, taken
}

// lineItem reads the next item of the open list in a raw line. The whole line
// has been checked.
func (r *Reader) lineItem(dst []byte) ([]byte, progress) {
	l := &r.list
	if l.line[l.next] == ']' {
		r.list = list{}
		return dst, skipped
	}
	if r.beforeRecord != nil {
		r.beforeRecord(l.offset, l.item)
	}
	var f fields
	r.check.invalid = false
	from, to := l.next, 0
	reason := LineNotAuditEvent
	if l.line[from] == '{' {
		to = r.check.object(l.line, from, &f)
		reason = f.refusal(LineNotAuditEvent)
	} else {
		to = r.check.value(l.line, from, 0)
	}
	if !f.isEvent() {
		r.refuseItem(reason, to)
		return dst, skipped
	}
	out := r.copyLine(dst, l.line[from:to])
	r.advance(to)
	return out, taken
}

// refuseItem skips the next item of the open list, which ends at to.
func (r *Reader) refuseItem(why Reason, to int) {
	l := &r.list
	raw := r.chunk
	if l.line != nil {
		raw = l.line
	}
	r.report(Skip{Reason: why, Offset: l.offset, Item: l.item, Raw: raw[l.next:to]})
	r.advance(to)
}

// advance goes on after the item that ends at to.
func (r *Reader) advance(to int) {
	l := &r.list
	l.item++
	if l.line == nil {
		l.next, l.left = to, l.left-1
	} else if l.next = next(l.line, to); l.line[l.next] == ',' {
		l.next = next(l.line, l.next+1)
	}
}
