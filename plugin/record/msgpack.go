package record

import "encoding/binary"

// This file reads msgpack: the head of an object, with its length checked
// against the bytes that are there, and the way past whole objects.

// class is what kind of object a head announces. str and bin are one: Fluent
// Bit and its inputs use them alike.
type class uint8

const (
	broken class = iota // cut off, or the one byte that msgpack never uses
	scalar              // nil, boolean, integer, float: head and value are one
	text                // str or bin
	array
	mapping
	ext
)

// uintAt reads a big-endian unsigned integer of 1, 2, 4 or 8 bytes.
func uintAt(b []byte, i, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[i])
	case 2:
		return uint64(binary.BigEndian.Uint16(b[i:]))
	case 4:
		return uint64(binary.BigEndian.Uint32(b[i:]))
	}
	return binary.BigEndian.Uint64(b[i:])
}

// head reads the head of the object at b[i], i <= len(b). For text and ext, n
// bytes of content follow at next, and they are there. For array and mapping,
// n elements or pairs follow, of which only as much is known as that b could
// hold them.
func head(b []byte, i int) (c class, n, next int) {
	if i >= len(b) {
		return broken, 0, i
	}
	first := b[i]
	i++
	width := 0 // of the length or value that follows the first byte
	switch {
	case first < 0x80 || first >= 0xe0:
		return scalar, 0, i
	case first < 0x90:
		c, n = mapping, int(first&0x0f)
	case first < 0xa0:
		c, n = array, int(first&0x0f)
	case first < 0xc0:
		c, n = text, int(first&0x1f)
	default:
		switch first {
		case 0xc0, 0xc2, 0xc3: // nil, false, true
			return scalar, 0, i
		case 0xc4, 0xc5, 0xc6: // bin
			c, width = text, 1<<(first-0xc4)
		case 0xc7, 0xc8, 0xc9: // ext
			c, width = ext, 1<<(first-0xc7)
		case 0xca, 0xcb: // float
			c, n = scalar, 4<<(first-0xca)
		case 0xcc, 0xcd, 0xce, 0xcf: // uint
			c, n = scalar, 1<<(first-0xcc)
		case 0xd0, 0xd1, 0xd2, 0xd3: // int
			c, n = scalar, 1<<(first-0xd0)
		case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8: // fixext
			c, n = ext, 1<<(first-0xd4)
		case 0xd9, 0xda, 0xdb: // str
			c, width = text, 1<<(first-0xd9)
		case 0xdc, 0xdd:
			c, width = array, 2<<(first-0xdc)
		case 0xde, 0xdf:
			c, width = mapping, 2<<(first-0xde)
		default: // 0xc1
			return broken, 0, i
		}
	}
	if len(b)-i < width {
		return broken, 0, i
	}
	if width > 0 {
		n = int(uintAt(b, i, width))
		i += width
	}
	need := n
	switch c {
	case mapping:
		need = 2 * n
	case ext:
		i++ // the ext type
	}
	if need > len(b)-i {
		return broken, 0, i
	}
	if c == scalar {
		return scalar, 0, i + n
	}
	return c, n, i
}

// skip returns the index behind the count objects at b[i], or -1 if b ends or
// stops being msgpack before. It keeps no stack, whatever the depth: objects
// still to come are counted.
func skip(b []byte, i, count int) int {
	for count > 0 {
		// Each object takes a byte at least, so a count beyond that is broken,
		// and it cannot overflow.
		if count > len(b)-i {
			return -1
		}
		count--
		c, n, next := head(b, i)
		switch c {
		case broken:
			return -1
		case text, ext:
			next += n
		case array:
			count += n
		case mapping:
			count += 2 * n
		}
		i = next
	}
	return i
}

// fixstrEnd returns the index behind the fixstr at b[i], or more than len(b) if
// there is none, or not all of it. Nearly every string is one.
func fixstrEnd(b []byte, i int) int {
	if i < len(b) && b[i]>>5 == 0xa0>>5 {
		return i + 1 + int(b[i]&0x1f)
	}
	return len(b) + 1
}

// textBounds returns where the content of the str or bin at b[i] begins and
// ends; from is 0 if there is none.
func textBounds(b []byte, i int) (from, to int) {
	if to = fixstrEnd(b, i); to <= len(b) {
		return i + 1, to
	}
	c, n, at := head(b, i)
	if c != text {
		return 0, 0
	}
	return at, at + n
}

// textAt returns the str or bin at b[i] and the index behind it. It views b.
func textAt(b []byte, i int) (s []byte, next int, ok bool) {
	from, to := textBounds(b, i)
	if from == 0 {
		return nil, i, false
	}
	return b[from:to], to, true
}
