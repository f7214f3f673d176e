package record

import "runtime/debug"

// This file walks a chunk record by record.

// Options is what the plugin's keys say about records.
type Options struct {
	LogKey           string // Log_Key: the key that holds a raw line or an event; "" for none
	RestoreTimestamp bool   // Restore_Timestamp: see Times
}

// Event describes an event besides its JSON. An event is recognised by its Source, or
// without one by its JSON less the closing brace and what was Restored, and by its Time.
// They are the same each time that the record is read, whatever was learnt meanwhile, and
// not the same for events that differ.
type Event struct {
	// Source is what the event was read from, if bytes of it that are not UTF-8
	// were replaced: the text of the event in the raw line, or the msgpack of its
	// map. Otherwise nil: then the event's JSON is all that was read. It views the
	// chunk.
	Source []byte
	// Restored is the number of bytes that the restored timestamp takes at the end
	// of the JSON, before the closing brace; 0 if none was restored.
	Restored int
	// Time is the record's time as its eight bytes (seconds<<32 | nanoseconds) if
	// the record's own map is the event and lacks exactly one of its two
	// timestamps, which Fluent Bit's parser may have taken as the record's time; 0
	// otherwise, and if the time is not known. It does not depend on whether the
	// timestamp was restored, on Options.RestoreTimestamp, or on the Times.
	Time uint64
	// LeftOut says that such an event did not get its timestamp back although
	// Options.RestoreTimestamp is set.
	LeftOut bool
}

// Reader walks one chunk at a time. It is for one goroutine at a time and never
// blocks. It views the chunk in place and keeps it until the next Reset, which
// may be Reset(nil, nil).
type Reader struct {
	// OnSkip, if set, is called by Next for each record and item skipped, in each
	// walk. The slices in s are valid during the call only.
	OnSkip func(s Skip)

	opt    Options
	chunk  []byte
	times  *Times
	own    Times // when the caller keeps none
	day    day
	offset int  // of the next record in the chunk
	list   list // of the record before, as long as it is open
	last   Event
	stats  Stats
	skip   Skip // for OnSkip, as soon as step is over
	ahead  bool // the rest of the chunk has been looked through for times

	within bool // see NextWithin

	convert converter
	check   checker

	// beforeRecord is for tests: it is called before a record or item is read.
	beforeRecord func(offset, item int)
}

// NewReader returns a Reader without a chunk. It keeps a copy of opt.
func NewReader(opt *Options) *Reader { return &Reader{opt: *opt} }

// Reset begins to walk chunk from its start, and sets Stats to zero. The chunk
// must not change until the walk is over. times is that of the chunk's tag; nil
// forgets what record times are like with the next Reset.
func (r *Reader) Reset(chunk []byte, times *Times) {
	if times == nil {
		r.own.seen.Store(0)
		times = &r.own
	}
	r.chunk, r.times, r.offset, r.last = chunk, times, 0, Event{}
	r.list, r.stats, r.skip, r.ahead = list{}, Stats{}, Skip{}, false
}

// Last describes the event that the last Next or NextWithin appended. It is the
// zero Event before the first one.
func (r *Reader) Last() Event { return r.last }

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
	switch {
	case r.list.open && r.list.line == nil:
		return r.mapItem(dst)
	case r.list.open:
		return r.lineItem(dst)
	case r.offset < len(r.chunk):
		return r.record(dst)
	}
	return dst, exhausted
}

// record reads the record at r.offset.
func (r *Reader) record(dst []byte) ([]byte, progress) {
	at := r.offset
	if r.beforeRecord != nil {
		r.beforeRecord(at, -1)
	}
	rt, body, isRecord := r.header(at)
	if isRecord && !rt.isGroupMarker() {
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
			return r.eventRecord(out, &f, rt, body, next), taken
		}
		dst = out[:len(dst)]
	}
	end := skip(r.chunk, at, 1)
	switch {
	case end < 0:
		return dst, r.abandon()
	case !isRecord:
		return dst, r.refuse(NotRecord, nil, end)
	case rt.isGroupMarker():
		r.offset = end
		return dst, skipped
	}
	return r.odd(dst, rt, body, end)
}

// odd reads the record at r.offset, which is none of the usual: it may hold a raw
// line, a list, or an event with something that event tripped over.
func (r *Reader) odd(dst []byte, rt recordTime, body, end int) ([]byte, progress) {
	b := r.chunk
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
		out, next, reason := r.convert.event(dst, b, body, &f, false, "")
		if reason != none {
			return out[:len(dst)], r.refuse(reason, nil, end)
		}
		if under {
			r.moveTo(end)
			r.appended(Event{Source: r.source(body, next)})
			return out, taken
		}
		return r.eventRecord(out, &f, rt, body, end), taken
	case f.isList():
		_, n, first := head(b, f.items)
		r.list = list{open: true, offset: r.offset, next: first, left: n}
		r.moveTo(end)
		return dst, skipped
	}
	return dst, r.refuse(f.refusal(NotAuditEvent), nil, end)
}

// line reads the raw line of the record at r.offset.
func (r *Reader) line(dst, line []byte, end int) ([]byte, progress) {
	var f fields
	from, to, object, reason := r.check.line(line, &f)
	switch {
	case reason != none:
	case !object:
		reason = LineNotAuditEvent
	case f.isEvent():
		out := r.copyLine(dst, line[from:to])
		r.moveTo(end)
		return out, taken
	case f.isList():
		r.list = list{open: true, offset: r.offset, line: line, next: next(line, f.items+1)}
		r.moveTo(end)
		return dst, skipped
	default:
		reason = f.refusal(LineNotAuditEvent)
	}
	return dst, r.refuse(reason, line, end)
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
	var e Event
	if r.check.invalid {
		dst, e.Source = appendReplaced(dst, text), text
	} else {
		dst = append(dst, text...)
	}
	r.appended(e)
	return dst
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

// moveTo counts the record at r.offset, which ends at end, and goes on there.
func (r *Reader) moveTo(end int) {
	r.stats.Records++
	r.offset = end
}

// appended counts the event that was appended.
func (r *Reader) appended(e Event) {
	r.last = e
	r.stats.Events++
	if e.Source != nil {
		r.stats.InvalidUTF8++
	}
}

// source is the Source of the event that the map at chunk[from:to] was just converted to.
func (r *Reader) source(from, to int) []byte {
	if r.convert.replaced {
		return r.chunk[from:to]
	}
	return nil
}

// eventRecord finishes the event that is the record's own map, from body to end, and
// puts back the timestamp that it may lack.
func (r *Reader) eventRecord(out []byte, f *fields, rt recordTime, body, end int) []byte {
	e := Event{Source: r.source(body, end)}
	if f.lacksOneTimestamp() {
		e.Time = rt.bytes()
		if r.opt.RestoreTimestamp {
			n := len(out)
			out = r.restore(out, f, rt)
			e.Restored = len(out) - n
			e.LeftOut = e.Restored == 0
		}
	}
	r.moveTo(end)
	r.appended(e)
	return out
}

// restore puts back the one timestamp that the event at the end of out lacks, if that is
// certain.
func (r *Reader) restore(out []byte, f *fields, rt recordTime) []byte {
	if r.times.seen.Load() == 0 && !r.ahead {
		r.lookAhead()
	}
	r.times.learn(rt)
	key, us, ok := f.missingTimestamp(rt, r.times, &r.day)
	if !ok {
		r.stats.TimestampsLeftOut++
		return out
	}
	out = append(r.day.appendTimestamp(out[:len(out)-1], key, us), '}')
	r.stats.TimestampsRestored++
	return out
}

// lookAhead learns from the times of the rest of the chunk, once: of a tag that
// is new, the first record alone does not say what its times are like.
func (r *Reader) lookAhead() {
	r.ahead = true
	for at := r.offset; at < len(r.chunk); {
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

// refuse skips the record at r.offset, which ends at end.
func (r *Reader) refuse(why Reason, line []byte, end int) progress {
	r.report(Skip{Reason: why, Offset: r.offset, Item: -1, Raw: r.chunk[r.offset:end], Line: line})
	r.moveTo(end)
	return skipped
}

func (r *Reader) report(s Skip) {
	r.stats.Skipped[s.Reason]++
	r.skip = s
}

// abandon gives up the rest of the chunk, which is not msgpack.
func (r *Reader) abandon() progress {
	r.stats.BrokenBytes = len(r.chunk) - r.offset
	r.refuse(Broken, nil, len(r.chunk))
	r.stats.Records-- // refuse counts it
	return exhausted
}
