package record

import "runtime/debug"

// This file walks a chunk record by record.

// Options is what the plugin's keys say about records.
type Options struct {
	LogKey           string // Log_Key: the key that holds a raw line or an event; "" for none
	RestoreTimestamp bool   // Restore_Timestamp: see Times
}

// Position is a place in a chunk from which the walk can be taken up: the next
// event not yet taken. It also says how far skipped records, replaced bytes and
// the like have been counted already, so that nothing is counted or reported
// twice by a walk resumed from before. The zero value is the start of a chunk.
// Positions are comparable, and hold only for the bytes that they came from.
type Position struct {
	place
	counted place
}

// place is the offset of a record and the index in its EventList.
type place struct{ offset, item int }

func (p place) before(q place) bool {
	return p.offset < q.offset || p.offset == q.offset && p.item < q.item
}

// Offset is where the record begins in the chunk, in bytes.
func (p Position) Offset() int { return p.offset }

// Item is the index of the event in the record's EventList, or 0.
func (p Position) Item() int { return p.item }

// CountedTo is p with what was counted on the way to later marked as counted:
// for taking up a walk at p after it went on to later.
func (p Position) CountedTo(later Position) Position {
	if p.counted.before(later.counted) {
		p.counted = later.counted
	}
	return p
}

// Reader walks one chunk at a time. It is for one goroutine at a time and never
// blocks. It views the chunk in place and keeps it until the next Reset, which
// may be Reset(nil, Position{}, nil).
type Reader struct {
	// OnSkip, if set, is called by Next for each record and item skipped, once
	// for each place in the chunk even if the walk is resumed. The slices in s
	// are valid during the call only.
	OnSkip func(s Skip)

	opt   Options
	chunk []byte
	times *Times
	own   Times // when the caller keeps none
	day   day
	pos   Position
	last  Position
	list  list
	stats Stats
	skip  Skip // for OnSkip, as soon as step is over
	ahead bool // the rest of the chunk has been looked through for times

	within bool // see NextWithin

	convert converter
	check   checker

	// beforeRecord is for tests: it is called before a record or item is read.
	beforeRecord func(offset, item int)
}

// NewReader returns a Reader without a chunk. It keeps a copy of opt.
func NewReader(opt *Options) *Reader { return &Reader{opt: *opt} }

// Reset begins to walk chunk from at, and sets Stats to zero. The chunk must
// not change until the walk is over. times is that of the chunk's tag; nil
// forgets what record times are like with the next Reset.
func (r *Reader) Reset(chunk []byte, at Position, times *Times) {
	if times == nil {
		r.own.seen.Store(0)
		times = &r.own
	}
	if at.counted.before(at.place) {
		at.counted = at.place
	}
	r.chunk, r.times, r.pos, r.last = chunk, times, at, at
	r.list, r.stats, r.skip, r.ahead = list{}, Stats{}, Skip{}, false
}

// Position is that of the event that the next Next returns, or of what is
// skipped before it.
func (r *Reader) Position() Position { return r.pos }

// LastPosition is that of the event that the last Next returned, for reading it
// again later; nothing is counted again then.
func (r *Reader) LastPosition() Position { return r.last.CountedTo(r.pos) }

// Stats are the counts since Reset.
func (r *Reader) Stats() Stats { return r.stats }

// Next appends the next audit event to dst: one JSON object, no separator
// behind it. ok is false when the chunk is exhausted; then dst is returned. As
// with append, out may be a new array, and bytes between its length and
// capacity are overwritten. out does not point into the chunk. Next does not
// panic, unless OnSkip does.
func (r *Reader) Next(dst []byte) (out []byte, ok bool) {
	r.within = false
	out, got := r.next(dst)
	return out, got == taken
}

// NextWithin is Next, but leaves an event that dst has no room for, unless it is to be
// taken anyway, and as far as that can be told before it is read, as it can of a raw
// line: then full is true, ok is false, and the next call finds that event again. So a
// large event is not first appended where it cannot stay.
func (r *Reader) NextWithin(dst []byte, anyway bool) (out []byte, ok, full bool) {
	r.within = !anyway
	out, got := r.next(dst)
	return out, got == taken, got == noRoom
}

func (r *Reader) next(dst []byte) (out []byte, got progress) {
	for {
		out, got = r.step(dst)
		if r.skip.Reason != none {
			s := r.skip
			r.skip = Skip{}
			if r.OnSkip != nil {
				r.OnSkip(s)
			}
		}
		if got != skipped {
			return out, got
		}
		dst = out[:len(dst)]
	}
}

// progress is what one step came to.
type progress uint8

const (
	skipped   progress = iota // no event; there may be more
	taken                     // an event was appended
	exhausted                 // the end of the chunk
	noRoom                    // there is an event, and too little room for it
)

// step reads one record, or one item of the open list. If it does not append an
// event it returns dst, perhaps with more capacity.
func (r *Reader) step(dst []byte) (out []byte, got progress) {
	defer func() {
		if p := recover(); p != nil {
			out, got = dst, skipped
			r.afterPanic(p, debug.Stack())
		}
	}()
	if r.pos.offset >= len(r.chunk) {
		return dst, exhausted
	}
	if !r.list.open {
		return r.record(dst)
	}
	if r.list.line == nil {
		return r.mapItem(dst)
	}
	return r.lineItem(dst)
}

// record reads the record at r.pos.
func (r *Reader) record(dst []byte) ([]byte, progress) {
	at := r.pos.offset
	if r.beforeRecord != nil {
		r.beforeRecord(at, -1)
	}
	rt, body, isRecord := r.header(at)
	if isRecord && !rt.isGroupMarker() && r.pos.item == 0 {
		if line, end, ok := r.onlyLine(body); ok {
			if r.within && len(line) > cap(dst)-len(dst) {
				return dst, noRoom
			}
			return r.line(dst, line, end)
		}
		// Most records are events or raw lines. Convert at once what looks like
		// an event, and look again only if that was wrong.
		var f fields
		r.convert.replaced = false
		out, next, reason := r.convert.event(dst, r.chunk, body, &f, true, r.opt.LogKey)
		if reason == none && f.isEvent() {
			return r.eventRecord(out, &f, rt, next), taken
		}
		dst = out[:len(dst)]
	}
	end := skip(r.chunk, at, 1)
	switch {
	case end < 0:
		return dst, r.abandon()
	case !isRecord:
		return dst, r.refuse(NotRecord, -1, r.chunk[at:end], nil, place{end, 0})
	case rt.isGroupMarker():
		r.pos.place = place{end, 0}
		r.pos = r.pos.CountedTo(Position{counted: r.pos.place})
		return dst, skipped
	}
	return r.odd(dst, rt, body, end)
}

// odd reads the record at r.pos, which is none of the usual: it may hold a raw
// line, a list, or an event with something that event tripped over.
func (r *Reader) odd(dst []byte, rt recordTime, body, end int) ([]byte, progress) {
	b, raw := r.chunk, r.chunk[r.pos.offset:end]
	after := place{end, 0}
	var f fields
	scan(b, body, &f, r.opt.LogKey)
	under := false // Log_Key
	if !f.isEvent() && !f.isList() && f.log > 0 {
		line, _, isText := textAt(b, f.log)
		if isText {
			return r.line(dst, line, end)
		}
		if c, _, _ := head(b, f.log); c == mapping {
			body, under = f.log, true
			f = fields{}
			scan(b, body, &f, "")
		}
	}
	switch {
	case f.isEvent():
		f = fields{}
		r.convert.replaced = false
		out, _, reason := r.convert.event(dst, b, body, &f, false, "")
		if reason != none {
			return out[:len(dst)], r.refuse(reason, -1, raw, nil, after)
		}
		if under {
			return r.take(out, after), taken
		}
		return r.eventRecord(out, &f, rt, end), taken
	case f.isList():
		_, n, first := head(b, f.items)
		r.list = list{open: true, next: first, left: n, end: end}
		for range min(r.pos.item, n) {
			r.list.next = skip(b, r.list.next, 1)
			r.list.left--
		}
		return dst, skipped
	}
	return dst, r.refuse(f.refusal(NotAuditEvent), -1, raw, nil, after)
}

// line reads the raw line of the record at r.pos.
func (r *Reader) line(dst, line []byte, end int) ([]byte, progress) {
	var f fields
	from, to, object, reason := r.check.line(line, &f)
	switch {
	case reason != none:
	case !object:
		reason = LineNotAuditEvent
	case f.isEvent():
		return r.take(r.copyLine(dst, line[from:to]), place{end, 0}), taken
	case f.isList():
		r.list = list{open: true, line: line, next: next(line, f.items+1), end: end}
		for range r.pos.item {
			if line[r.list.next] == ']' {
				break
			}
			r.list.next = behindItem(line, r.check.value(line, r.list.next, 0))
		}
		return dst, skipped
	default:
		reason = f.refusal(LineNotAuditEvent)
	}
	return dst, r.refuse(reason, -1, r.chunk[r.pos.offset:end], line, place{end, 0})
}

// onlyLine returns the raw line of the map at body that holds nothing else, as of
// in_tail, and the index behind it.
func (r *Reader) onlyLine(body int) (line []byte, end int, ok bool) {
	_, n, i := head(r.chunk, body)
	if n != 1 {
		return nil, 0, false
	}
	key, i, ok := textAt(r.chunk, i)
	if !ok || string(key) != r.opt.LogKey {
		return nil, 0, false
	}
	return textAt(r.chunk, i)
}

// copyLine appends a checked event.
func (r *Reader) copyLine(dst, text []byte) []byte {
	r.convert.replaced = r.check.invalid
	if r.check.invalid {
		return appendReplaced(dst, text)
	}
	return append(dst, text...)
}

// usual is where the metadata begins in a record as Fluent Bit's inputs write it.
const usual = len("\x92\x92\xd7\x00") + 8

// header reads the record's frame at b[at]: its time and where its map begins.
// isRecord is false for whatever else stands there, and if the chunk breaks off.
func (r *Reader) header(at int) (rt recordTime, body int, isRecord bool) {
	b := r.chunk
	// As Fluent Bit's inputs write it: the two arrays, the time, no metadata.
	if at+usual+1 <= len(b) && string(b[at:at+4]) == "\x92\x92\xd7\x00" {
		i := at + usual
		switch {
		case b[i] == 0x80:
			i++
		case i+5 <= len(b) && string(b[i:i+5]) == "\xdf\x00\x00\x00\x00":
			i += 5
		default:
			i = 0
		}
		if c, _, _ := head(b, i); i > 0 && c == mapping {
			return timeOf(b[at+4:]), i, true
		}
	}
	c, n, i := head(b, at)
	if c != array || n != 2 {
		return rt, 0, false
	}
	// [time, map] before Fluent Bit 2.1, [[time, metadata], map] since.
	if c, n, first := head(b, i); c == array {
		i = first
		if n > 0 {
			rt, i = timeAt(b, i)
			n--
		}
		if i >= 0 {
			i = skip(b, i, n)
		}
	} else {
		rt, i = timeAt(b, i)
	}
	if i < 0 {
		return rt, 0, false
	}
	c, _, _ = head(b, i)
	return rt, i, c == mapping
}

// moveTo makes after the place to go on, and tells whether what lies before it
// is counted for the first time.
func (r *Reader) moveTo(after place) (fresh bool) {
	fresh = !r.pos.place.before(r.pos.counted)
	if fresh {
		if r.pos.item == 0 {
			r.stats.Records++
		}
		r.pos.counted = after
	}
	r.pos.place = after
	return fresh
}

// take counts the event that out ends with.
func (r *Reader) take(out []byte, after place) []byte {
	r.last = r.pos
	if r.moveTo(after) {
		r.stats.Events++
		if r.convert.replaced {
			r.stats.InvalidUTF8++
		}
	}
	return out
}

// eventRecord takes the event that was the record's own map, and puts back the
// timestamp that it may lack.
func (r *Reader) eventRecord(out []byte, f *fields, rt recordTime, end int) []byte {
	fresh := !r.pos.place.before(r.pos.counted)
	if !r.opt.RestoreTimestamp || !f.lacksOneTimestamp() {
		return r.take(out, place{end, 0})
	}
	if r.times.seen.Load() == 0 && !r.ahead {
		r.lookAhead()
	}
	r.times.learn(rt)
	key, us, ok := f.missingTimestamp(rt, r.times, &r.day)
	if ok {
		out = append(r.day.appendTimestamp(out[:len(out)-1], key, us), '}')
	}
	switch {
	case !fresh:
	case ok:
		r.stats.TimestampsRestored++
	default:
		r.stats.TimestampsLeftOut++
	}
	return r.take(out, place{end, 0})
}

// lookAhead learns from the times of the rest of the chunk, once: of a tag that
// is new, the first record alone does not say what its times are like.
func (r *Reader) lookAhead() {
	r.ahead = true
	for at := r.pos.offset; at < len(r.chunk); {
		end := skip(r.chunk, at, 1)
		if end < 0 {
			return
		}
		if rt, body, ok := r.header(at); ok && !rt.isGroupMarker() {
			var f fields
			scan(r.chunk, body, &f, "")
			if f.isEvent() && f.lacksOneTimestamp() {
				r.times.learn(rt)
			}
		}
		at = end
	}
}

// refuse counts and reports what is skipped, and goes on at after.
func (r *Reader) refuse(why Reason, item int, raw, line []byte, after place) progress {
	r.report(Skip{Reason: why, Offset: r.pos.offset, Item: item, Raw: raw, Line: line}, after)
	return skipped
}

func (r *Reader) report(s Skip, after place) {
	if !r.moveTo(after) {
		return
	}
	r.stats.Skipped[s.Reason]++
	r.skip = s
}

// abandon gives up the rest of the chunk, which is not msgpack.
func (r *Reader) abandon() progress {
	rest := r.chunk[r.pos.offset:]
	if !r.pos.place.before(r.pos.counted) {
		r.stats.BrokenBytes += len(rest)
		r.stats.Records-- // moveTo counts it
	}
	r.refuse(Broken, -1, rest, nil, place{len(r.chunk), 0})
	return exhausted
}
