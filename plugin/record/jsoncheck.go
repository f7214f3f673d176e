package record

import (
	"math/bits"
	"unicode/utf8"
)

// This file checks a raw line, in one pass over its bytes: that it is one JSON
// text (RFC 8259), that its strings are UTF-8, and what its top-level pairs say.

// checker holds what checks share.
type checker struct {
	kinds   [MaxDepth + 1]bool // per enclosing container: is an object
	invalid bool               // a string held bytes that are not UTF-8, since this was last cleared
	tooDeep bool               // the last failure was for depth
	escaped bool               // a string held an escape, since this was last cleared
	memory  memory
	keyBuf  [longestKey + utf8.UTFMax]byte
	valBuf  [longestKey + utf8.UTFMax]byte
}

// space returns the index of the first byte at or after i that is not JSON
// white space, or len(b).
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// next is space for the hot path: minified JSON has none.
func next(b []byte, i int) int {
	if i < len(b) && b[i] > ' ' {
		return i
	}
	return space(b, i)
}

// line checks the whole of b, white space around the value aside, and learns
// the fields of the object that it is. start and end bound the value. For JSON
// that is not an object, object is false.
func (c *checker) line(b []byte, f *fields) (start, end int, object bool, r Reason) {
	c.invalid, c.tooDeep = false, false
	start = space(b, 0)
	object = start < len(b) && b[start] == '{'
	if object {
		end = c.object(b, start, f)
	} else {
		end = c.value(b, start, 0)
	}
	if end < 0 || space(b, end) != len(b) {
		if end < 0 && c.tooDeep {
			return 0, 0, object, TooDeep
		}
		return 0, 0, object, NotJSON
	}
	return start, end, object, none
}

// object checks the object whose brace is b[i], learns its fields and returns
// the index behind it, or -1.
func (c *checker) object(b []byte, i int, f *fields) int {
	i = next(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	m := &c.memory
	m.begin()
	for {
		p := m.find(b, i)
		if m.fresh != nil {
			c.remember(b, i, p)
		}
		if p != nil {
			i = c.known(b, i+len(p.key), p, f)
		} else {
			i = c.member(b, i, f)
		}
		if i < 0 {
			return -1
		}
		if i = next(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = next(b, i+1)
		case '}':
			if m.fresh != nil {
				c.remember(b, i, nil)
			}
			return i + 1
		default:
			return -1
		}
	}
}

// known checks the value at b[i], which is p's, and those that are remembered to
// follow it, learns them, and returns the index behind the last, or -1.
func (c *checker) known(b []byte, i int, p *member, f *fields) int {
	m := &c.memory
	var last *remembered // the value before
	var lastOf *member
	for p.isWorthwhile() {
		v := p.recall(b, i)
		if v == nil {
			m.fresh, m.from = p, i
			break
		}
		if last != nil {
			lastOf.followed(last, v)
		}
		last, lastOf = v, p
		v.learn(f, b, i)
		i += len(v.run)
		if v.then == 0 {
			return i
		}
		m.next = v.then
		p = &m.members[v.then-1]
	}
	invalid := c.invalid
	c.invalid = false
	end := c.memberValue(b, next(b, i), p.name, f)
	if m.fresh != nil {
		m.to = end
		isText := end > 0 && b[i] == '"'
		delimits := isText || end > 0 && (b[i] == '{' || b[i] == '[')
		if !delimits || c.invalid || p.name != otherName && (!isText || c.escaped) {
			m.fresh = nil
		}
	}
	c.invalid = c.invalid || invalid
	return end
}

// remember keeps the fresh value, up to the key of p at b[i] if that follows.
func (c *checker) remember(b []byte, i int, p *member) {
	m := &c.memory
	end, then := m.to, 0
	if p != nil {
		end, then = i+len(p.key), m.next
	}
	m.fresh.remember(b, m.from, b[m.from:end], nil, then, len(`"`), m.to-m.from-len(`"`))
	m.fresh = nil
}

// member checks the pair whose key is at b[i], learns it, and returns the index
// behind it, or -1.
func (c *checker) member(b []byte, i int, f *fields) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	from := i
	c.escaped = false
	if i = c.text(b, from+1); i < 0 {
		return -1
	}
	key := b[from+1 : i-1]
	if c.escaped {
		key = unescape(c.keyBuf[:0], key)
	}
	n := nameOf(key)
	if i = next(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	i++
	if !c.invalid {
		c.memory.add(b[from:i], nil, n)
	}
	return c.memberValue(b, next(b, i), n, f)
}

// memberValue checks the value at b[i] of a member of that name, learns it, and
// returns the index behind it, or -1.
func (c *checker) memberValue(b []byte, i int, n name, f *fields) int {
	if n == otherName {
		return c.value(b, i, 1)
	}
	if i >= len(b) || b[i] != '"' {
		items := 0
		if i < len(b) && b[i] == '[' {
			items = i
		}
		i = c.value(b, i, 1)
		f.learn(n, nil, items)
		return i
	}
	from := i + 1
	c.escaped = false
	if i = c.text(b, from); i < 0 {
		return -1
	}
	value := b[from : i-1]
	if c.escaped {
		value = unescape(c.valBuf[:0], value)
	}
	f.learn(n, value, 0)
	return i
}

// value checks the value at b[i] and returns the index behind it, or -1. depth
// is how many containers enclose it.
func (c *checker) value(b []byte, i, depth int) int {
	outside := depth
	inObject := false
	for {
		// Here a value begins; white space before it is passed.
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case '"':
			i = c.text(b, i+1)
		case '{', '[':
			isObject := b[i] == '{'
			if depth >= MaxDepth {
				c.tooDeep = true
				return -1
			}
			i = next(b, i+1)
			if i >= len(b) {
				return -1
			}
			if isObject && b[i] == '}' || !isObject && b[i] == ']' {
				i++
				break
			}
			c.kinds[depth] = inObject
			depth++
			inObject = isObject
			if inObject {
				if i = c.key(b, i); i < 0 {
					return -1
				}
			}
			continue
		case 't':
			i = literal(b, i, "true")
		case 'f':
			i = literal(b, i, "false")
		case 'n':
			i = literal(b, i, "null")
		default:
			i = number(b, i)
		}
		if i < 0 {
			return -1
		}
		// Here a value has ended.
		for {
			if depth == outside {
				return i
			}
			if i = next(b, i); i >= len(b) {
				return -1
			}
			if b[i] == ',' {
				i = next(b, i+1)
				break
			}
			if inObject && b[i] != '}' || !inObject && b[i] != ']' {
				return -1
			}
			i++
			depth--
			inObject = c.kinds[depth]
		}
		if inObject {
			if i = c.key(b, i); i < 0 {
				return -1
			}
		}
	}
}

// key checks the key at b[i] and its colon, and returns the index of the value,
// or -1.
func (c *checker) key(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = c.text(b, i+1); i < 0 {
		return -1
	}
	if i = next(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	return next(b, i+1)
}

// text checks the string whose content begins at b[i] and returns the index
// behind its closing quote, or -1.
func (c *checker) text(b []byte, i int) int {
	for {
		// findSpecial, without a call and with its reason why loads stay in b:
		// most strings end within a few words.
		mask := uint64(0)
		for few := i + 32; i < few && i+8 <= len(b); {
			if mask = special(loadAt(&b[i], 0)); mask != 0 {
				i += firstByte(mask)
				break
			}
			i += 8
		}
		if mask == 0 {
			i = findSpecial(b, i)
		}
		if i >= len(b) {
			return -1
		}
		if b[i] == '"' {
			return i + 1
		}
		switch first := b[i]; {
		case first == '\\':
			c.escaped = true
			if i = escapes(b, i); i < 0 {
				return -1
			}
		case first < ' ':
			return -1
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				c.invalid = true
			}
			i += size
		}
	}
}

// escapes checks the escape at b[i] and those that follow it closely, and returns the
// index behind the last, or -1. JSON within a string has one every few bytes, and nearly
// all are of quotes, so it looks at 64 bytes at a time.
func escapes(b []byte, i int) int {
	escaped := uint64(0) // of the bytes ahead, as a bit each: the first, or none
	for i+64 <= len(b) {
		x := classesOf((*[64]byte)(b[i:]))
		starts := x.backslash &^ escaped
		if starts == 0 {
			break
		}
		// Of a run of backslashes every other one is escaped.
		after := starts<<1 | escaped
		const even = 0x5555555555555555
		sum, over := bits.Add64(starts&^even&^after, starts, 0)
		escaped = (even ^ sum<<1) & after

		end := x.quote&^escaped | x.other
		within := (end - 1) &^ end // below the lowest; all if there is none
		for rest := escaped &^ (x.quote | x.backslash) & within; rest != 0; rest &= rest - 1 {
			if escapeEnd(b, i+bits.TrailingZeros64(rest)-1) < 0 {
				return -1
			}
		}
		if end != 0 {
			if end&-end&escaped != 0 {
				return -1
			}
			return i + bits.TrailingZeros64(end)
		}
		escaped = over
		i += 64
	}
	if escaped != 0 {
		return escapeEnd(b, i-1)
	}
	if i < len(b) && b[i] == '\\' {
		return escapeEnd(b, i)
	}
	return i
}

// escapeEnd returns the index behind the escape whose backslash is b[i], or -1.
func escapeEnd(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 <= len(b) && hexValues[b[i+2]]|hexValues[b[i+3]]|hexValues[b[i+4]]|hexValues[b[i+5]] < 16 {
			return i + 6
		}
	}
	return -1
}

// hexValues is what a byte stands for as a hexadecimal digit, 16 if it is none.
var hexValues = func() (v [256]uint8) {
	for i := range v {
		switch c := byte(i); {
		case c >= '0' && c <= '9':
			v[i] = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v[i] = c | 0x20 - 'a' + 10
		default:
			v[i] = 16
		}
	}
	return v
}()

// hex4 is what the four hexadecimal digits at b[i] stand for.
func hex4(b []byte, i int) (n rune) {
	for _, c := range b[i : i+4] {
		n = n<<4 | rune(hexValues[c])
	}
	return n
}

func literal(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// digits returns the index behind the digits at b[i], of which there must be
// one at least; else -1.
func digits(b []byte, i int) int {
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

// number returns the index behind the number at b[i], or -1.
func number(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// unescape appends to buf what the checked string s stands for, or so much of
// it that it is longer than any name that it is compared with.
func unescape(buf, s []byte) []byte {
	i := 0
	for i < len(s) && len(buf) <= longestKey {
		c := s[i]
		if c != '\\' {
			buf = append(buf, c)
			i++
			continue
		}
		c = s[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			// A lone half of a surrogate pair is as good as any other
			// character here: none of the names has one.
			r := hex4(s, i)
			i += 4
			buf = utf8.AppendRune(buf, r)
			continue
		}
		buf = append(buf, c)
	}
	return buf
}
