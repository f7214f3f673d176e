package record

// This file goes on after a panic, which costs one record or one item.

// afterPanic skips what step was reading: the record, or the item of a list.
func (r *Reader) afterPanic(p any, stack []byte) {
	if l := r.list; !l.open {
		end := skip(r.chunk, r.offset, 1)
		if end < 0 {
			end = len(r.chunk)
		}
		r.refuse(Panicked, nil, end)
	} else if to := r.itemEnd(); to > 0 {
		r.refuseItem(Panicked, to)
	} else {
		r.report(Skip{Reason: Panicked, Offset: l.offset, Item: l.item, Raw: l.line[l.next:]})
		r.list = list{}
	}
	r.skip.Panic, r.skip.Stack = p, stack
}

// itemEnd returns the index behind the next item of the open list, or -1 if
// that too panics: then the rest of the list is lost with the item.
func (r *Reader) itemEnd() (end int) {
	defer func() {
		if recover() != nil {
			end = -1
		}
	}()
	if r.list.line == nil {
		return skip(r.chunk, r.list.next, 1)
	}
	return r.check.value(r.list.line, r.list.next, 0)
}
