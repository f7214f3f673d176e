package record

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// This file reads record times and puts back the timestamp that Fluent Bit's
// parser took out of an event as its time key.
//
// A wrong timestamp is worse than none, and a record time can be something
// else: the event's time without its fraction (a Time_Format without one), or
// the time at which the line was read (inputs fall back on the clock when a
// parser gives no time: in_tail, tail_file.c). kube-apiserver writes
// microseconds, and the parser turns them into nanoseconds that are a whole
// number of microseconds, or one less where the fraction had no exact double
// (flb_parser_json.c). The clock gives any nanosecond. So a timestamp is put
// back only if the record's time is such a number, the times of its tag are
// seen to carry fractions and none of them was of the other kind.

// Times remembers what the record times of one tag are like, across chunks. It
// learns only from events that lack one timestamp. The zero value is ready; all
// goroutines may share it.
type Times struct{ seen atomic.Uint32 }

const (
	seenFraction = 1 << iota // a time of whole microseconds, not of whole seconds
	seenForeign              // a time that no microsecond timestamp parses to
)

func (t *Times) note(bit uint32) {
	if t.seen.Load()&bit == 0 {
		t.seen.Or(bit)
	}
}

// recordTime is the time of a record. Only an ext of Fluent Bit's own is known;
// integers and floats, which other senders may write, carry no microseconds.
type recordTime struct {
	known     bool
	sec, nsec uint32
}

// timeAt reads the time at b[i]. Whatever stands there, next is the index
// behind it, or -1 if b breaks off.
func timeAt(b []byte, i int) (t recordTime, next int) {
	c, n, at := head(b, i)
	if c != ext {
		return t, skip(b, i, 1)
	}
	if n == 8 && b[at-1] == 0 {
		t = timeOf(b[at:])
	}
	return t, at + n
}

// timeOf reads the eight bytes of a time.
func timeOf(b []byte) (t recordTime) {
	t.sec, t.nsec = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	t.known = t.nsec < 1e9
	return t
}

// bytes is the time as its eight bytes, 0 if it is not known.
func (t recordTime) bytes() uint64 {
	if !t.known {
		return 0
	}
	return uint64(t.sec)<<32 | uint64(t.nsec)
}

// isGroupMarker tells the records with which Fluent Bit opens and closes a
// group (flb_log_event.h: FLB_LOG_EVENT_GROUP_START, FLB_LOG_EVENT_GROUP_END)
// from log records: their seconds, as a signed number, are -1 and -2.
func (t recordTime) isGroupMarker() bool { return t.known && t.sec >= 1<<32-2 }

// micros is the time in microseconds since 1970, rounded, and whether it is one
// that a microsecond timestamp parses to.
func (t recordTime) micros() (us int64, exact bool) {
	us = int64(t.sec)*1e6 + int64(t.nsec+500)/1000
	off := t.nsec % 1000
	return us, t.known && (off <= 1 || off == 999)
}

// learn notes the time of an event that lacks one timestamp.
func (t *Times) learn(rt recordTime) {
	us, exact := rt.micros()
	switch {
	case !rt.known:
	case !exact:
		t.note(seenForeign)
	case us%1e6 != 0:
		t.note(seenFraction)
	}
}

// hour bounds how far apart the two timestamps of an event may lie for one of
// them to be put back.
const hour = int64(time.Hour / time.Microsecond)

// missingTimestamp is the key and the value, in microseconds since 1970, of the
// timestamp that an event lacks, taken from the time of its record; ok is false
// if it must not be put back.
func (f *fields) missingTimestamp(rt recordTime, times *Times, d *day) (key string, us int64, ok bool) {
	us, exact := rt.micros()
	if !exact || times.seen.Load() != seenFraction {
		return "", 0, false
	}
	if f.requestTime.present {
		request, ok := d.parseMicros(f.requestTime.value)
		return keyStageTime, us, ok && request <= us && us <= request+hour
	}
	stage, ok := d.parseMicros(f.stageTime.value)
	return keyRequestTime, us, ok && us <= stage && stage <= us+hour
}

// day is the day of the last timestamp, since the next is of the same one. The zero
// value is none.
type day struct {
	text  [len("0000-00-00T")]byte
	start int64 // of it, in microseconds since 1970
}

const dayLength = int64(24 * time.Hour / time.Microsecond)

const microTime = "0000-00-00T00:00:00.000000Z" // Kubernetes' MicroTime in UTC

// Its two words behind the day.
var clockForm, microsForm = formOf(microTime[11:19]), formOf(microTime[19:])

// parseMicros reads an RFC 3339 timestamp as microseconds since 1970. It is
// quick for Kubernetes' MicroTime in UTC.
func (d *day) parseMicros(s []byte) (us int64, ok bool) {
	if len(s) != len(microTime) || s[10] != 'T' {
		return parseAnyRFC3339(s)
	}
	if string(s[:len(d.text)]) != string(d.text[:]) {
		start, ok := parseAnyRFC3339(append(append(make([]byte, 0, len(microTime)), s[:11]...), "00:00:00Z"...))
		if !ok {
			return parseAnyRFC3339(s)
		}
		copy(d.text[:], s)
		d.start = start
	}
	clock, micros := binary.LittleEndian.Uint64(s[11:]), binary.LittleEndian.Uint64(s[19:])
	if !clockForm.has(clock) || !microsForm.has(micros) {
		return parseAnyRFC3339(s)
	}
	two := func(x uint64, i int) int64 { return int64(x>>(8*i)&15)*10 + int64(x>>(8*i+8)&15) }
	h, m, sec := two(clock, 0), two(clock, 3), two(clock, 6)
	if h > 23 || m > 59 || sec > 59 {
		return 0, false
	}
	return d.start + ((h*60+m)*60+sec)*1e6 + two(micros, 1)*10000 + two(micros, 3)*100 + two(micros, 5), true
}

// form is eight bytes, digits and others.
type form struct {
	want  uint64
	above uint64 // what lifts a byte that is another, or no digit, to 0x80
}

// formOf takes 0 for any digit, and every other byte for itself.
func formOf(s string) (f form) {
	for i := range 8 {
		f.want |= uint64(s[i]) << (8 * i)
		if s[i] == '0' {
			f.above |= (0x80 - 10) << (8 * i)
		} else {
			f.above |= (0x80 - 1) << (8 * i)
		}
	}
	return f
}

func (f form) has(x uint64) bool {
	x ^= f.want
	return ((x&^highs)+f.above|x)&highs == 0
}

func parseAnyRFC3339(s []byte) (us int64, ok bool) {
	t, err := time.Parse(time.RFC3339, string(s))
	return t.UnixMicro(), err == nil
}

// appendTimestamp appends the pair, as the last of a JSON object that is open,
// in the form of Kubernetes' MicroTime (k8s.io/apimachinery, RFC3339Micro). us
// is that of a record time, so its year has four digits.
func (d *day) appendTimestamp(dst []byte, key string, us int64) []byte {
	if us < d.start || us >= d.start+dayLength || d.text[0] == 0 {
		d.start = us - us%dayLength
		time.UnixMicro(d.start).UTC().AppendFormat(d.text[:0], "2006-01-02T")
	}
	dst = append(dst, `,"`...)
	dst = append(dst, key...)
	dst = append(dst, `":"`...)
	dst = append(dst, d.text[:]...)
	dst = append(dst, `00:00:00.000000Z"`...)
	s := dst[len(dst)-len(`00:00:00.000000Z"`):]
	two := func(i int, n uint32) { s[i], s[i+1] = byte('0'+n/10), byte('0'+n%10) }
	us -= d.start
	sec, frac := uint32(us/1e6), uint32(us%1e6)
	two(0, sec/3600)
	two(3, sec/60%60)
	two(6, sec%60)
	two(9, frac/10000)
	two(11, frac/100%100)
	two(13, frac%100)
	return dst
}
