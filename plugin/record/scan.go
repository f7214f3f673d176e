package record

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// This file finds, eight bytes at a time, the bytes of a string that JSON
// treats specially, and copies strings around them.

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// special has a bit set in each byte of x that a JSON string cannot hold as it
// is (control characters, quote, backslash) or that is not ASCII. The lowest
// bit set is exact; above it a borrow may have marked a plain byte. Bytes from
// 0x80 on need no term of their own: the two for quote and backslash leave
// their high bit set, 0xa2 and 0xdc only one of the two.
func special(x uint64) uint64 {
	return ((x - 0x20*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)) & highs
}

// classes are the special bytes of 64, the first as the lowest bit.
type classes struct{ backslash, quote, other uint64 }

// classesOf is exact in every bit. Each word has one bit a byte of each class; they are
// laid between one another, word by word, and put in order at the end.
func classesOf(b *[64]byte) classes {
	var noBackslash, noQuote, noOther uint64
	for n := 0; n < 64; n += 8 {
		const low = ^uint64(highs)
		x := loadAt(&b[n], 0)
		y := x & low
		noBackslash = noBackslash>>1 | ((y^'\\'*ones)+low|x)&highs
		noQuote = noQuote>>1 | ((y^'"'*ones)+low|x)&highs
		noOther = noOther>>1 | ((y|highs)-0x20*ones)&^x&highs
	}
	return classes{transposed(^noBackslash), transposed(^noQuote), transposed(^noOther)}
}

// transposed swaps bit i of byte k with bit k of byte i (Hacker's Delight, 7-3).
func transposed(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}

// loadAt reads the eight bytes at p[i:], the first as the lowest; storeAt writes
// them. Neither checks bounds: who calls says why all eight are there.
func loadAt(p *byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(p), i))[:])
}

func storeAt(p *byte, i int, x uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(unsafe.Pointer(p), i))[:], x)
}

// firstByte is the index of the byte that the lowest bit of a special mask is in.
func firstByte(mask uint64) int { return bits.TrailingZeros64(mask) >> 3 }

// plain is the same test for one byte.
func plain(c byte) bool { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' }

// findSpecial returns the index of the first special byte of b at or after i,
// or len(b). Words are loaded while i+8 <= len(b), four at a time while all are there.
func findSpecial(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		p := &b[i]
		if special(loadAt(p, 0))|special(loadAt(p, 8))|special(loadAt(p, 16))|special(loadAt(p, 24)) != 0 {
			break // the next loop finds where
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if m := special(loadAt(&b[i], 0)); m != 0 {
			return i + firstByte(m)
		}
	}
	for i < len(b) && plain(b[i]) {
		i++
	}
	return i
}

const replacement = string(utf8.RuneError)

// appendReplaced appends JSON text with each byte that is not UTF-8 replaced by
// U+FFFD, and nothing else changed.
func appendReplaced(dst, text []byte) []byte {
	for len(text) > 0 {
		n := 0
		for n < len(text) {
			if text[n] < utf8.RuneSelf {
				n++
				continue
			}
			r, size := utf8.DecodeRune(text[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		dst = append(dst, text[:n]...)
		if n == len(text) {
			break
		}
		dst = append(dst, replacement...)
		text = text[n+1:]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// shortEscapes are the escapes of two bytes: what stands behind the backslash, 0 for
// bytes that have none.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '\n': 'n', '\t': 't', '\r': 'r', '\b': 'b', '\f': 'f'}

// appendEscaped appends what stands in a JSON string for the special byte without a short
// escape, or the character that begins, at s[0]. It returns how many bytes of s that was,
// and whether it was not UTF-8.
func appendEscaped(dst, s []byte) (out []byte, size int, invalid bool) {
	if c := s[0]; c < 0x20 {
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]), 1, false
	}
	r, size := utf8.DecodeRune(s)
	if r == utf8.RuneError && size == 1 {
		return append(dst, replacement...), 1, true
	}
	return append(dst, s[:size]...), size, false
}
