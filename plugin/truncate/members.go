package truncate

import (
	"bytes"
	"iter"

	jsoniter "github.com/json-iterator/go"
)

// This file takes a JSON object apart into its members, without a copy and
// without recursion. It relies on the object being valid JSON.

// member is a member of an object, as parts of the object's bytes. before, value
// and after are all there is between two commas, or a brace and a comma.
type member struct {
	before []byte // the key and the colon, and white space
	key    []byte // the key in its quotes, within before
	value  []byte
	after  []byte // white space
}

// members yields the members of the object that begins at object[0], in order.
func members(object []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		from := 1
		key := skipSpace(object, from)
		for object[key] != '}' {
			keyEnd := stringEnd(object, key)
			value := skipSpace(object, skipSpace(object, keyEnd)+len(":"))
			valueEnd := valueEnd(object, value)
			to := skipSpace(object, valueEnd)
			if !yield(member{object[from:value], object[key:keyEnd], object[value:valueEnd], object[valueEnd:to]}) || object[to] == '}' {
				return
			}
			from = to + len(",")
			key = skipSpace(object, from)
		}
	}
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// stringEnd is the index behind the string whose opening quote is b[i].
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++ // a quote may follow it
		}
	}
	return i + 1
}

// valueEnd is the index behind the member's value that begins at b[i].
func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
	default:
		return i + bytes.IndexAny(b[i:], ",} \t\r\n")
	}
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// is tells whether a value is a string that stands for name.
func is(value []byte, name string) bool {
	const longestEscape = len(`\u0000`)
	if value[0] != '"' || len(value) > len(`""`)+longestEscape*len(name) {
		return false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1:len(value)-1]) == name
	}
	var s string
	return jsoniter.Unmarshal(value, &s) == nil && s == name
}
