package record

import (
	"math"
	"slices"
	"strconv"
	"unsafe"
)

// This file writes msgpack as JSON, in one loop with a stack of its own.
//
// Output is written by index into the whole capacity of dst; o is how much of
// it is used. Before anything is written, reserve makes room for it.

// MaxDepth is how deep maps and arrays may nest, an event's own braces
// included: as deep as encoding/json reads them.
const MaxDepth = 10000

// margin is the room that one scalar, head or close needs at most, with commas:
// strconv's longest float64 has 24 bytes.
const margin = 40

// converter holds what conversions share. Its stack grows with the nesting that
// is there, to MaxDepth at most.
type converter struct {
	stack    []uint64 // per enclosing container: elements left << 1 | is a map
	replaced bool     // bytes were replaced by U+FFFD since this was last cleared
	memory   memory
	run      []byte // for remember
}

// reserve returns dst, reallocated if need be, with room for n more bytes at o.
func reserve(dst []byte, o, n int) []byte {
	if len(dst)-o >= n {
		return dst
	}
	dst = slices.Grow(dst[:o], n)
	return dst[:cap(dst)]
}

// text writes b[from:to], to <= len(b), as a JSON string and leaves room for
// margin bytes. It copies eight bytes at a time up to the first special one.
//
// Why the loads and stores stay within b and dst: reserve has made room for
// n+8 bytes behind the quote, and none is stored further than that. Loads end
// at n, save that a string below eight bytes is loaded with what is behind it,
// for which b is asked first.
func (c *converter) text(dst []byte, o int, b []byte, from, to int) ([]byte, int) {
	src := b[from:]
	n := to - from
	dst = reserve(dst, o, n+2+8+margin)
	dst[o] = '"'
	o++
	in, out := unsafe.SliceData(src), &dst[o]
	i := 0
	if n < 8 {
		if len(src) < 8 {
			return c.escape(dst, o, src[:n], 0)
		}
		x := loadAt(in, 0)
		storeAt(out, 0, x)
		if m := special(x) & (1<<(8*n) - 1); m != 0 {
			i = firstByte(m)
			return c.escape(dst, o+i, src[:n], i)
		}
		o += n
		dst[o] = '"'
		return dst, o + 1
	}
	for ; i+16 <= n; i += 16 {
		x, y := loadAt(in, i), loadAt(in, i+8)
		storeAt(out, i, x)
		storeAt(out, i+8, y)
		if special(x)|special(y) != 0 {
			break // the next loop finds where
		}
	}
	for ; i+8 <= n; i += 8 {
		x := loadAt(in, i)
		storeAt(out, i, x)
		if m := special(x); m != 0 {
			i += firstByte(m)
			return c.escape(dst, o+i, src[:n], i)
		}
	}
	// The last eight bytes again, of which the first are known to be plain.
	x := loadAt(in, n-8)
	storeAt(out, n-8, x)
	if m := special(x); m != 0 {
		i = n - 8 + firstByte(m)
		return c.escape(dst, o+i, src[:n], i)
	}
	o += n
	dst[o] = '"'
	return dst, o + 1
}

// escape writes the rest of s, from s[i] on, and the closing quote.
//
// Why the loads and stores stay within s and dst: loads end at len(s), and before each run
// of words reserve makes room for all that is left of s.
func (c *converter) escape(dst []byte, o int, s []byte, i int) ([]byte, int) {
	in := unsafe.SliceData(s)
	for {
		dst = reserve(dst, o, len(s)-i+2+margin)
		mask := uint64(0)
		for i+8 <= len(s) {
			x := loadAt(in, i)
			storeAt(&dst[o], 0, x)
			if mask = special(x); mask != 0 {
				i += firstByte(mask)
				o += firstByte(mask)
				break
			}
			i += 8
			o += 8
		}
		for mask == 0 && i < len(s) && plain(s[i]) {
			dst[o] = s[i]
			i++
			o++
		}
		if i == len(s) {
			break
		}
		if short := shortEscapes[s[i]]; short != 0 {
			dst[o], dst[o+1] = '\\', short
			o += 2
			i++
			continue
		}
		out, size, invalid := appendEscaped(dst[:o], s[i:])
		dst, o = out[:cap(out)], len(out)
		c.replaced = c.replaced || invalid
		i += size
	}
	dst[o] = '"'
	return dst, o + 1
}

// value writes the value at b[i] and a comma behind it, and returns the index
// behind the value. depth is how many containers enclose it. The caller has
// reserved margin bytes, and has them again afterwards.
func (c *converter) value(dst []byte, o int, b []byte, i, depth int) (out []byte, end, next int, r Reason) {
	stack := c.stack[:0]
	left, isMap := 0, false // of the container that the loop is in
	for {
		if isMap {
			from, to := i+1, fixstrEnd(b, i)
			if to > len(b) {
				if from, to = textBounds(b, i); from == 0 {
					return dst, o, i, noKey(b, i)
				}
			}
			dst, o = c.text(dst, o, b, from, to)
			dst[o] = ':'
			o++
			i = to
		}
		k, n, at := text, 0, 0
		if to := fixstrEnd(b, i); to <= len(b) {
			n, at = to-i-1, i+1
		} else {
			k, n, at = head(b, i)
		}
		switch k {
		case text:
			i = at + n
			dst, o = c.text(dst, o, b, at, i)
		case mapping, array:
			opening, closing := byte('['), byte(']')
			if k == mapping {
				opening, closing = '{', '}'
			}
			dst[o] = opening
			o++
			i = at
			if depth+len(stack) >= MaxDepth {
				return dst, o, i, TooDeep
			}
			if n > 0 {
				frame := uint64(left) << 1
				if isMap {
					frame |= 1
				}
				if stack = append(stack, frame); cap(stack) > cap(c.stack) {
					c.stack = stack
				}
				left, isMap = n-1, k == mapping
				dst = reserve(dst, o, margin)
				continue
			}
			dst[o] = closing
			o++
		case scalar:
			written := appendScalar(dst[o:o], b[i:at])
			if len(written) == 0 {
				return dst, o, i, Unrepresentable
			}
			o += len(written)
			i = at
		case ext:
			return dst, o, i, Unrepresentable
		default:
			return dst, o, i, Broken
		}
		dst[o] = ','
		o++
		for left == 0 {
			if len(stack) == 0 {
				return reserve(dst, o, margin), o, i, none
			}
			dst = reserve(dst, o, margin)
			dst[o-1] = ']'
			if isMap {
				dst[o-1] = '}'
			}
			dst[o] = ','
			o++
			frame := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			left, isMap = int(frame>>1), frame&1 == 1
		}
		left--
		dst = reserve(dst, o, margin)
	}
}

// noKey is why there is no key at b[i].
func noKey(b []byte, i int) Reason {
	if skip(b, i, 1) < 0 {
		return Broken
	}
	return Unrepresentable
}

// appendScalar appends the nil, boolean or number that is all of b, or nothing
// if JSON cannot hold it.
func appendScalar(dst, b []byte) []byte {
	first := b[0]
	switch first {
	case 0xc0:
		return append(dst, "null"...)
	case 0xc2:
		return append(dst, "false"...)
	case 0xc3:
		return append(dst, "true"...)
	case 0xca:
		return appendFloat(dst, float64(math.Float32frombits(uint32(uintAt(b, 1, 4)))))
	case 0xcb:
		return appendFloat(dst, math.Float64frombits(uintAt(b, 1, 8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return strconv.AppendUint(dst, uintAt(b, 1, len(b)-1), 10)
	case 0xd0, 0xd1, 0xd2, 0xd3:
		unused := 64 - 8*(len(b)-1)
		return strconv.AppendInt(dst, int64(uintAt(b, 1, len(b)-1)<<unused)>>unused, 10)
	}
	return strconv.AppendInt(dst, int64(int8(first)), 10) // fixint
}

// appendFloat appends f in the shortest form that reads as the same double, and
// reads as a double: 1.0 keeps its fraction.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if slices.Contains(dst[n:], '.') {
		return dst
	}
	return append(dst, '.', '0')
}

// event writes the map at b[i] as a JSON object at the end of dst, and learns
// its fields. If guess is set, it gives up with NotAuditEvent at a key that
// another form may be made of (logKey, items), unless the map is likely an
// event by then; otherwise whether it is an event is for the caller to see from
// f. With a reason, what out holds beyond len(dst) means nothing.
func (c *converter) event(dst, b []byte, i int, f *fields, guess bool, logKey string) (out []byte, next int, r Reason) {
	k, n, i := head(b, i)
	if k != mapping {
		return dst, i, NotAuditEvent
	}
	o := len(dst)
	dst = reserve(dst[:cap(dst)], o, margin)
	dst[o] = '{'
	o++
	m := &c.memory
	m.begin()
	wrote := o // of the fresh value
	for ; n > 0; n-- {
		p := m.find(b, i)
		if m.fresh != nil {
			c.remember(b, i, dst[wrote:o], p)
		}
		key := otherName
		if p != nil {
			key = p.name
			if guess && key == nameItems && !(f.auditID && f.stage) {
				return dst[:o], i, NotAuditEvent
			}
			dst, o = put(dst, o, p.json)
			i += len(p.key)
			var last *remembered // the value before
			var lastOf *member
			for p.isWorthwhile() {
				v := p.recall(b, i)
				if v == nil || v.values > n || v.values == n && v.then > 0 {
					m.fresh, m.from, wrote = p, i, o
					break
				}
				if last != nil {
					lastOf.followed(last, v)
				}
				last, lastOf = v, p
				v.learn(f, b, i)
				dst, o = put(dst, o, v.json)
				i += len(v.run)
				n -= v.values
				if p = nil; v.then == 0 {
					break
				}
				m.next = v.then
				p = &m.members[v.then-1]
				key = p.name
			}
			if p == nil {
				n++ // the loop takes one away
				continue
			}
		} else {
			from, to := textBounds(b, i)
			if from == 0 {
				return dst[:o], i, noKey(b, i)
			}
			key = nameOf(b[from:to])
			isLog := string(b[from:to]) == logKey
			if guess && !(f.auditID && f.stage) && (isLog || key == nameItems) {
				return dst[:o], i, NotAuditEvent
			}
			at := o
			dst, o = c.text(dst, o, b, from, to)
			dst[o] = ':'
			o++
			if !isLog && !c.replaced {
				m.add(b[i:to], dst[at:o], key)
			}
			i = to
		}
		valueAt := i
		if from, to := textBounds(b, i); from > 0 {
			dst, o = c.text(dst, o, b, from, to)
			dst[o] = ','
			o++
			i = to
			f.learn(key, b[from:to], 0)
		} else {
			if dst, o, i, r = c.value(dst, o, b, i, 1); r != none {
				return dst[:o], i, r
			}
			f.learn(key, nil, arrayAt(b, valueAt))
			if key != otherName {
				m.fresh = nil
			}
		}
		m.to = i
	}
	if m.fresh != nil {
		c.remember(b, i, dst[wrote:o], nil)
	}
	if dst[o-1] == ',' {
		o--
	}
	dst[o] = '}'
	return dst[:o+1], i, none
}

// remember keeps the fresh value, which json is as JSON with its comma, and the key of
// p if that follows.
func (c *converter) remember(b []byte, i int, json []byte, p *member) {
	m := &c.memory
	if !c.replaced && m.to-m.from <= maxRun {
		end, then := m.to, 0
		if p != nil && p.name != nameItems { // at which guessing ends
			end, then = i+len(p.key), m.next
			json = append(c.run[:0], json...)
			json = append(json, p.json...)
			c.run = json
		}
		from, to := textBounds(b, m.from)
		m.fresh.remember(b, m.from, b[m.from:end], json, then, from-m.from, to-m.from)
	}
	m.fresh = nil
}

// put writes s and leaves room for margin bytes.
func put(dst []byte, o int, s []byte) ([]byte, int) {
	dst = reserve(dst, o, len(s)+margin)
	return dst, o + copy(dst[o:], s)
}

// scan learns the fields of the map at b[i] without converting it; next is the
// index behind the map, or -1 if b breaks off. f.log is the offset of the last
// value under logKey.
func scan(b []byte, i int, f *fields, logKey string) (next int) {
	_, n, i := head(b, i)
	for ; n > 0; n-- {
		key, after, isText := textAt(b, i)
		if !isText {
			if after = skip(b, i, 1); after < 0 {
				return -1
			}
		}
		value, end, ok := textAt(b, after)
		if !ok {
			value = nil
			if end = skip(b, after, 1); end < 0 {
				return -1
			}
		}
		if isText {
			f.learn(nameOf(key), value, arrayAt(b, after))
			if logKey != "" && string(key) == logKey {
				f.log = after
			}
		}
		i = end
	}
	return i
}

// arrayAt is i if the value that begins there is an array, else 0.
func arrayAt(b []byte, i int) int {
	if c := b[i]; c>>4 == 9 || c == 0xdc || c == 0xdd {
		return i
	}
	return 0
}
