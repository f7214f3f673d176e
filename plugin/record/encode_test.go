package record

import (
	"encoding/binary"
	"math"
)

// This file writes msgpack for tests.

type (
	pairs  []any  // key, value, key, value, …
	items  []any  // array
	msg    string // msgpack as it is
	str8   string
	str16  string
	str32  string
	bin16  string
	bin32  string
	map16  []any
	map32  []any
	arr32  []any
	extern struct { // ext
		kind byte
		data string
	}
)

// pack is the msgpack of all values, one behind the other. A []byte is a bin8.
func pack(values ...any) []byte {
	var b []byte
	for _, v := range values {
		b = appendPacked(b, v)
	}
	return b
}

func appendPacked(b []byte, v any) []byte {
	u16, u32, u64 := binary.BigEndian.AppendUint16, binary.BigEndian.AppendUint32, binary.BigEndian.AppendUint64
	all := func(b []byte, vs []any) []byte { return append(b, pack(vs...)...) }
	switch v := v.(type) {
	case msg:
		return append(b, v...)
	case nil:
		return append(b, 0xc0)
	case bool:
		if v {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case int:
		if v >= 0 && v < 128 || v < 0 && v >= -32 {
			return append(b, byte(v))
		}
		return u64(append(b, 0xd3), uint64(v))
	case uint64:
		return u64(append(b, 0xcf), v)
	case float64:
		return u64(append(b, 0xcb), math.Float64bits(v))
	case float32:
		return u32(append(b, 0xca), math.Float32bits(v))
	case string:
		switch n := len(v); {
		case n < 32:
			return append(append(b, 0xa0|byte(n)), v...)
		case n < 256:
			return append(append(b, 0xd9, byte(n)), v...)
		}
		return append(u32(append(b, 0xdb), uint32(len(v))), v...)
	case str8:
		return append(append(b, 0xd9, byte(len(v))), v...)
	case str16:
		return append(u16(append(b, 0xda), uint16(len(v))), v...)
	case str32:
		return append(u32(append(b, 0xdb), uint32(len(v))), v...)
	case []byte:
		return append(append(b, 0xc4, byte(len(v))), v...)
	case bin16:
		return append(u16(append(b, 0xc5), uint16(len(v))), v...)
	case bin32:
		return append(u32(append(b, 0xc6), uint32(len(v))), v...)
	case pairs:
		if n := len(v) / 2; n < 16 {
			return all(append(b, 0x80|byte(n)), v)
		}
		return all(u32(append(b, 0xdf), uint32(len(v)/2)), v)
	case map16:
		return all(u16(append(b, 0xde), uint16(len(v)/2)), v)
	case map32:
		return all(u32(append(b, 0xdf), uint32(len(v)/2)), v)
	case items:
		if len(v) < 16 {
			return all(append(b, 0x90|byte(len(v))), v)
		}
		return all(u16(append(b, 0xdc), uint16(len(v))), v)
	case arr32:
		return all(u32(append(b, 0xdd), uint32(len(v))), v)
	case extern:
		return append(append(b, 0xc7, byte(len(v.data)), v.kind), v.data...)
	}
	panic("no msgpack for this type")
}

// at is a record time as Fluent Bit writes it.
func at(sec, nsec uint32) msg {
	b := binary.BigEndian.AppendUint32([]byte{0xd7, 0}, sec)
	return msg(binary.BigEndian.AppendUint32(b, nsec))
}

// rec is a record of the present layout.
func rec(body any) msg { return recAt(at(1767323045, 123456000), body) }

func recAt(time, body any) msg {
	return msg(pack(items{items{time, pairs{}}, body}))
}

// ev is a small event with more pairs at its end.
func ev(id string, more ...any) pairs {
	return append(pairs{"kind", "Event", "apiVersion", "audit.k8s.io/v1", "auditID", id, "stage", "ResponseComplete"}, more...)
}

// line is ev as kube-apiserver writes it.
func line(id string, more ...string) string {
	s := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"` + id + `","stage":"ResponseComplete"`
	for _, m := range more {
		s += "," + m
	}
	return s + "}"
}
