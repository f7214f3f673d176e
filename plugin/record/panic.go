package record

// This file goes on after a panic, which costs one record or one item.

// afterPanic skips what step was reading: the record, or the item of a list.
func (r *Reader) afterPanic(p any, stack []byte) {
	s := Skip{Reason: Panicked, Offset: r.pos.offset, Item: -1, Panic: p, Stack: stack}
	l := &r.list
	if !l.open {
		end := skip(r.chunk, r.pos.offset, 1)
		if end < 0 {
			end = len(r.chunk)
		}
		s.Raw = r.chunk[r.pos.offset:end]
		r.report(s, place{end, 0})
		return
	}
	s.Item = r.pos.item
	from, after := l.next, place{r.pos.offset, r.pos.item + 1}
	if l.line == nil {
		l.next, l.left = skip(r.chunk, from, 1), l.left-1
		s.Raw = r.chunk[from:l.next]
	} else if to := r.itemEnd(from); to > 0 {
		s.Raw = l.line[from:to]
		l.next = behindItem(l.line, to)
	} else {
		s.Raw = l.line[from:]
		after = place{l.end, 0}
		r.list = list{}
	}
	r.report(s, after)
}

// itemEnd returns the index behind the item at i in the open list's line, or -1
// if that too panics: then the rest of the list is lost with the item.
func (r *Reader) itemEnd(i int) (end int) {
	defer func() {
		if recover() != nil {
			end = -1
		}
	}()
	return r.check.value(r.list.line, i, 0)
}
