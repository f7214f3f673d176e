package record

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
)

// This file remembers the members of the last events. A cluster's events are much
// alike: who asks, with which agent, for which kind of object. What is byte for byte
// what was read before need not be read again.
//
// What is remembered is whole values that delimit themselves, in JSON strings, objects
// and arrays, in msgpack all, and the key of the member that followed. So bytes that
// begin with such a run hold just that value and that key, and they have been checked,
// and in msgpack converted, before.

const (
	maxMembers = 32 // of an event; it has up to 17 (audit.k8s.io/v1, Event)
	maxKey     = 40 // bytes of a key as it is written
	lookahead  = 4  // members that an event may leave out in a row
	slotBits   = 5
	slots      = 1 << slotBits // values of a member
	minRun     = 8             // bytes of a value, and the key behind it, as they are written
	maxRun     = 1024          // with more they are rarely the same
)

// memory is what is remembered of one form. It belongs to one goroutine. Its bounds are
// 1 MB for JSON and 3 MB for msgpack; with real events it is some 200 kB.
type memory struct {
	members []member // in the order in which events have them
	next    int      // index of the one that is expected next
	credit  int      // members that may still be added
	seen    int      // events

	fresh    *member // whose value was not remembered; it is as soon as what follows is known
	from, to int     // that value
}

// member is one key at the top of an event, with its last values.
type member struct {
	word, mask uint64 // the first eight bytes of key, and which of them there are
	key        []byte // as it is written: in JSON with its quotes and the colon
	name       name
	json       []byte // of msgpack: the key as JSON, with the colon
	score      int    // up with each value that is met again, down with each that is not

	// Where in a value two words are that tell most values from one another, which is
	// found out by those that did not.
	at     [2]int
	turn   int                // the one to find anew next
	tries  int                // times that it was not looked up because its values do not repeat
	streak int                // how often something must come behind a value to be joined to it
	values *[slots]remembered // nil: none
}

// remembered is one value, or several that always came together.
type remembered struct {
	run    []byte // them and the key behind, as they are written
	json   []byte // of msgpack: the run as JSON, with its commas and colons
	values int    // how many
	then   int    // index behind the member that the key is of; 0: no key was behind

	telling [maxTelling]telling // the first tells of them, what they are
	tells   int

	follows *remembered // what came behind the last times
	streak  int         // how many times
}

// maxTelling is how many of the values of a run may be of keys that count.
const maxTelling = 3

// telling is a value that says whether a map is an event.
type telling struct {
	name     name
	from, to int // its text, in the run
}

// firstStreak is how often two values must come together to be compared as one, at
// first. Where that turns out to have been too early it becomes laterStreak times more.
const firstStreak, laterStreak = 16, 8

// learn tells f what is in the run, which stands at b[i].
func (v *remembered) learn(f *fields, b []byte, i int) {
	for _, t := range v.telling[:v.tells] {
		f.learn(t.name, b[i+t.from:i+t.to], 0)
	}
}

// followed notes that next came behind v, a value of p.
func (p *member) followed(v, next *remembered) {
	if v.follows != next {
		v.follows, v.streak = next, 0
		return
	}
	if v.streak++; v.streak == p.streak {
		v.join(next)
	}
}

// join makes next a part of v, if there is room.
func (v *remembered) join(next *remembered) {
	size := len(v.run)
	if size+len(next.run) > maxRun || len(v.json)+len(next.json) > 2*maxRun || v.tells+next.tells > maxTelling {
		return
	}
	v.run, v.json = extend(v.run, next.run), extend(v.json, next.json)
	for _, t := range next.telling[:next.tells] {
		v.telling[v.tells] = telling{t.name, size + t.from, size + t.to}
		v.tells++
	}
	v.values += next.values
	v.then = next.then
	v.follows = nil
}

// begin is to be called before an event is read.
func (m *memory) begin() {
	m.next, m.fresh = 0, nil
	if m.seen%(16*maxMembers) == 0 {
		m.credit = maxMembers
	}
	m.seen++
}

// find returns the member whose key stands at b[i], if it is one of the next few.
func (m *memory) find(b []byte, i int) *member {
	if i+8 > len(b) {
		return nil
	}
	x := loadAt(&b[i], 0)
	for n := m.next; n < len(m.members) && n < m.next+lookahead; n++ {
		p := &m.members[n]
		if x&p.mask == p.word && (len(p.key) <= 8 || bytes.HasPrefix(b[i:], p.key)) {
			m.next = n + 1
			return p
		}
	}
	return nil
}

// add remembers a key that find did not meet, so that the next event with it is
// quicker. It may do nothing: keys that keep changing are not worth the memory.
func (m *memory) add(key, json []byte, n name) {
	for i := range m.members {
		if bytes.Equal(m.members[i].key, key) {
			m.next = i + 1
			return
		}
	}
	if m.credit == 0 || len(key) > maxKey {
		return
	}
	m.credit--
	if len(m.members) == maxMembers {
		m.members, m.next = m.members[:0], 0
	}
	p := member{key: bytes.Clone(key), name: n, json: bytes.Clone(json), at: [2]int{0, 8}, score: highScore / 2, streak: firstStreak}
	var first [8]byte
	copy(first[:], key)
	p.word = loadAt(&first[0], 0)
	p.mask = ^uint64(0)
	if len(key) < 8 {
		p.mask = 1<<(8*len(key)) - 1
	}
	m.members = slices.Insert(m.members, m.next, p)
	m.next++
	for i := range m.members {
		m.members[i].forget() // they know others by index
	}
}

func (p *member) forget() {
	if p.values == nil {
		return
	}
	for i := range p.values {
		p.values[i].run = p.values[i].run[:0]
	}
}

// highScore is the score of a member whose values all repeat. Below a quarter of it,
// other words of them are tried, and below 0 its values are not worth a look.
const highScore = 64

// isWorthwhile says whether to look at the remembered values, and to remember one
// that is not among them. Of a member that hardly repeats it is so once in a while.
func (p *member) isWorthwhile() bool {
	if p.score >= 0 {
		return true
	}
	p.tries++
	return p.tries%64 == 0
}

// slot is where to look for the value at b[i], -1 if too little of b is left. A value
// is there or, when another one has come since, in the slot beside it.
func (p *member) slot(b []byte, i int) int {
	first, second := i+p.at[0], i+p.at[1]
	if max(first, second)+8 > len(b) {
		return -1
	}
	x := loadAt(&b[first], 0) + bits.RotateLeft64(loadAt(&b[second], 0), 29)
	return int(x * 0x9e3779b97f4a7c15 >> (64 - slotBits))
}

// recall returns the value that stands at b[i], with the key behind it, nil if it is
// not remembered.
func (p *member) recall(b []byte, i int) *remembered {
	if p.values == nil {
		return nil
	}
	if n := p.slot(b, i); n >= 0 {
		v := &p.values[n]
		if len(v.run) > 0 && bytes.HasPrefix(b[i:], v.run) {
			p.score = min(p.score+1, highScore)
			return v
		}
		if v = &p.values[n^1]; len(v.run) > 0 && bytes.HasPrefix(b[i:], v.run) {
			p.score = min(p.score+1, highScore)
			return v
		}
		if v = &p.values[n]; len(v.run) > 0 && p.score < highScore/4 {
			p.tellApart(v.run, b[i:])
		}
	}
	p.score = max(p.score-2, -1)
	return nil
}

// tellApart makes the words be looked at in which run is not what b begins with.
func (p *member) tellApart(run, b []byte) {
	n := 0
	for n < min(len(run), len(b)) && run[n] == b[n] {
		n++
	}
	for _, at := range p.at {
		if at <= n && n < at+8 {
			return // it was just chance that both came to one slot
		}
	}
	p.at[p.turn] = n
	p.turn = 1 - p.turn
	p.forget()
}

// remember keeps what stands at b[i]: a value, with the key behind it the run. Of a key
// that counts, from and to are its text.
func (p *member) remember(b []byte, i int, run, json []byte, then, from, to int) {
	n := p.slot(b, i)
	if n < 0 || len(run) < minRun || len(run) > maxRun || len(json) > 2*maxRun {
		return
	}
	if p.values == nil {
		p.values = new([slots]remembered)
	}
	p.values[n], p.values[n^1] = p.values[n^1], p.values[n]
	for _, v := range p.values[n&^1 : n&^1+2] {
		if v.values > 1 && bytes.HasPrefix(v.run, run) {
			p.streak = min(p.streak*laterStreak, math.MaxInt32) // it came without what was joined to it
		}
	}
	v := &p.values[n]
	*v = remembered{run: extend(v.run[:0], run), json: extend(v.json[:0], json), values: 1, then: then}
	if p.name != otherName {
		v.telling[0], v.tells = telling{p.name, from, to}, 1
	}
}

// extend is append, but makes room for more at once, so that it soon allocates no more.
func extend(s, more []byte) []byte {
	if n := len(s) + len(more); cap(s) < n {
		s = append(make([]byte, 0, 256<<bits.Len(uint(n-1)/256)), s...)
	}
	return append(s, more...)
}
