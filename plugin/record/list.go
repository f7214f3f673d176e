package record

// This file walks the items of an EventList, in msgpack or in a raw line.

// list is the EventList that the walk is in.
type list struct {
	open bool
	line []byte // that holds the list; nil for msgpack
	next int    // index of the next item: in line, or in the chunk
	left int    // items left, in msgpack
	end  int    // of the record in the chunk
}

// behindItem returns the index of the item, or closing bracket, behind the item
// that ends at i.
func behindItem(line []byte, i int) int {
	i = next(line, i)
	if line[i] == ',' {
		i = next(line, i+1)
	}
	return i
}

// mapItem reads the next item of the open list in msgpack.
func (r *Reader) mapItem(dst []byte) ([]byte, progress) {
	l := &r.list
	if l.left == 0 {
		return dst, r.closeList()
	}
	if r.beforeRecord != nil {
		r.beforeRecord(r.pos.offset, r.pos.item)
	}
	var f fields
	r.convert.replaced = false
	from := l.next
	out, to, reason := r.convert.event(dst, r.chunk, from, &f, false, "")
	if reason == none && !f.isEvent() {
		reason = f.refusal(NotAuditEvent)
	}
	after := place{r.pos.offset, r.pos.item + 1}
	if reason == none {
		l.next, l.left = to, l.left-1
		return r.take(out, after), taken
	}
	l.next, l.left = skip(r.chunk, from, 1), l.left-1
	return out[:len(dst)], r.refuse(reason, r.pos.item, r.chunk[from:l.next], nil, after)
}

// lineItem reads the next item of the open list in a raw line. The whole line
// has been checked.
func (r *Reader) lineItem(dst []byte) ([]byte, progress) {
	l := &r.list
	if l.line[l.next] == ']' {
		return dst, r.closeList()
	}
	if r.beforeRecord != nil {
		r.beforeRecord(r.pos.offset, r.pos.item)
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
	item, after := l.line[from:to], place{r.pos.offset, r.pos.item + 1}
	l.next = behindItem(l.line, to)
	if f.isEvent() {
		return r.take(r.copyLine(dst, item), after), taken
	}
	return dst, r.refuse(reason, r.pos.item, item, nil, after)
}

func (r *Reader) closeList() progress {
	after := place{r.list.end, 0}
	r.list = list{}
	r.moveTo(after)
	return skipped
}
