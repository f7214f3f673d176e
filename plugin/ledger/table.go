package ledger

import "math/bits"

// This file is the table of identities: open addressing over lines of 64 bytes, the
// unit that a processor loads at once. An entry lives in its home line or, if that was
// full, in one of the next lines.

// ID is the identity of an event. The table keeps its first word and 29 bits of the
// second one.
type ID = [2]uint64

// perLine is how many entries of 96 bits fit into a line beside its counter.
const perLine = 5

type line struct {
	first  [perLine]uint64
	second [perLine]uint32 // 29 bits of the ID's second word, and three bits of mark

	// A bit for each slot that is used, and above them the number of entries that found
	// this line full and live in a later one.
	state uint32
}

const (
	allUsed = 1<<perLine - 1
	passed  = 1 << perLine // one more entry in a later line
)

// mark is what the table knows of an entry.
type mark uint32

const (
	inFlight mark = 1 + iota // reserved
	doneEven                 // done, in a generation with an even number
	doneOdd                  // done, in one with an odd number

	markBits = 3
	moved    = mark(4) // came from the older generation and is in no file of this one yet
	markMask = 1<<markBits - 1
)

// doneIn is the mark of what is done in a generation.
func doneIn(generation uint64) mark { return doneEven + mark(generation&1) }

// maxLoad is the share of the slots that may be used, in percent, and growth by how
// much the table grows. A grown table has 64 B / (5 × 0.85 / 1.31), 19.7 bytes, for an
// entry, and a full one 15.1. A smaller growth moves each entry more often.
const maxLoad, growth = 85, 1.31

// minLines is the size of a new table.
const minLines = 1024

// table is for one goroutine at a time.
type table struct {
	lines    []line
	used     int
	inFlight int
	touched  uint32 // sum of what touch has read, so that it is read
}

func newTable() table { return table{lines: newLines(minLines)} }

// home is the line where an entry with that first word belongs. Entries are in the
// table in the order of their first words, but for what has passed full lines. So a
// table that grows is copied in one pass through both.
func (t *table) home(first uint64) int {
	hi, _ := bits.Mul64(first, uint64(len(t.lines)))
	return int(hi)
}

// after is the line that takes what line i has no room for.
func (t *table) after(i int) int {
	if i++; i < len(t.lines) {
		return i
	}
	return 0
}

// runLength is how many IDs are looked up together: the lines that they need are touched
// first, so that the waits for memory overlap.
const runLength = 32

func (t *table) touch(ids []ID) {
	sum := uint32(0)
	for i := range ids {
		sum += t.lines[t.home(ids[i][0])].state
	}
	for i := range ids {
		if h := t.home(ids[i][0]); t.lines[h].state >= passed {
			sum += t.lines[t.after(h)].state
		}
	}
	t.touched += sum
}

// slot is the place of an entry.
type slot struct{ line, at int }

func (t *table) mark(s slot) mark { return mark(t.lines[s.line].second[s.at]) & markMask }

func (t *table) setMark(s slot, m mark) {
	p := &t.lines[s.line].second[s.at]
	if mark(*p)&markMask == inFlight {
		t.inFlight--
	}
	if m == inFlight {
		t.inFlight++
	}
	*p = *p&^markMask | uint32(m)
}

func secondOf(id ID) uint32 { return uint32(id[1]) &^ markMask }

// find returns where id is.
func (t *table) find(id ID) (s slot, ok bool) {
	first, second := id[0], secondOf(id)
	i := t.home(first)
	for range t.lines {
		l := &t.lines[i]
		// Hardly ever is a first word there that is another entry's.
		if l.first[0] == first || l.first[1] == first || l.first[2] == first || l.first[3] == first || l.first[4] == first {
			for at := range perLine {
				if l.first[at] == first && l.second[at]&^markMask == second && l.state>>at&1 == 1 {
					return slot{i, at}, true
				}
			}
		}
		if l.state < passed {
			break
		}
		i = t.after(i)
	}
	return slot{}, false
}

// isCrowded says whether so many entries have passed the home line of id that they are
// not there by chance.
func (t *table) isCrowded(id ID) bool { return t.lines[t.home(id[0])].state >= 1000*passed }

// insert adds an ID that is not there.
func (t *table) insert(id ID, m mark) {
	if (t.used+1)*100 > len(t.lines)*perLine*maxLoad {
		t.grow()
	}
	t.place(id[0], secondOf(id)|uint32(m))
	t.used++
	if m == inFlight {
		t.inFlight++
	}
}

// place puts an entry into the first line that has room: some has.
func (t *table) place(first uint64, second uint32) {
	l := &t.lines[t.home(first)]
	if l.state&allUsed == allUsed {
		l = t.pass(first)
	}
	at := bits.TrailingZeros32(^l.state)
	l.first[at], l.second[at] = first, second
	l.state |= 1 << at
}

// pass goes past full lines to the one that has room for an entry.
func (t *table) pass(first uint64) *line {
	for i := t.home(first); ; i = t.after(i) {
		l := &t.lines[i]
		if l.state&allUsed != allUsed {
			return l
		}
		l.state += passed
	}
}

func (t *table) remove(s slot) {
	l := &t.lines[s.line]
	if mark(l.second[s.at])&markMask == inFlight {
		t.inFlight--
	}
	for i := t.home(l.first[s.at]); i != s.line; i = t.after(i) {
		t.lines[i].state -= passed
	}
	l.state &^= 1 << s.at
	t.used--
}

// grow makes the table larger, in its place: from the last line to the first, what a
// line had moves up to its new home. Lines from the one that is at work are those of the
// grown table, lines before it those of the old one.
func (t *table) grow() {
	n := len(t.lines)
	t.lines = extend(t.lines, int(float64(n)*growth)+1)
	type entry struct {
		first  uint64
		second uint32
	}
	var later []entry // the few that would have to go to lines before
	for i := n - 1; i >= 0; i-- {
		l := &t.lines[i]
		old := *l
		l.state = 0
		for used := old.state & allUsed; used != 0; used &= used - 1 {
			at := bits.TrailingZeros32(used)
			e := entry{old.first[at], old.second[at]}
			if home := t.home(e.first); home >= i && t.hasRoom(home) {
				t.place(e.first, e.second)
			} else {
				later = append(later, e)
			}
		}
	}
	for _, e := range later {
		t.place(e.first, e.second)
	}
}

// hasRoom says whether a line from i to the last one has room.
func (t *table) hasRoom(i int) bool {
	for _, l := range t.lines[i:] {
		if l.state&allUsed != allUsed {
			return true
		}
	}
	return false
}

// each calls do for every entry, which may remove it.
func (t *table) each(do func(s slot, id ID, m mark)) {
	for i := range t.lines {
		l := &t.lines[i]
		for used := l.state & allUsed; used != 0; used &= used - 1 {
			at := bits.TrailingZeros32(used)
			do(slot{i, at}, ID{l.first[at], uint64(l.second[at] &^ markMask)}, mark(l.second[at])&markMask)
		}
	}
}

func (t *table) close() {
	freeLines(t.lines)
	*t = table{}
}
