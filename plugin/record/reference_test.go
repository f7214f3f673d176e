package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// This file is the package's work done plainly: msgpack is decoded into a tree,
// raw lines go through encoding/json. Slow and, it is hoped, obviously right.

type (
	refMap []refPair
	refExt struct {
		kind int8
		data []byte
	}
	refPair struct{ key, value any }
)

var errCut = errors.New("cut off or not msgpack")

// refDecode returns the first value of b and what is left of b. Text and
// binary come as string.
func refDecode(b []byte) (v any, rest []byte, err error) {
	take := func(n uint64) []byte {
		if err != nil || n > uint64(len(b)) {
			err = errCut
			return nil
		}
		s := b[:n]
		b = b[n:]
		return s
	}
	number := func(size uint64) (n uint64) {
		for _, c := range take(size) {
			n = n<<8 | uint64(c)
		}
		return n
	}
	c := byte(number(1))
	if err != nil {
		return nil, b, err
	}
	text := func(n uint64) any { return string(take(n)) }
	ext := func(n uint64) any {
		kind := int8(number(1))
		return refExt{kind, take(n)}
	}
	list := func(n uint64) any {
		l := []any{}
		for ; n > 0 && err == nil; n-- {
			var v any
			v, b, err = refDecode(b)
			l = append(l, v)
		}
		return l
	}
	pairs := func(n uint64) any {
		m := refMap{}
		for ; n > 0 && err == nil; n-- {
			var p refPair
			if p.key, b, err = refDecode(b); err == nil {
				p.value, b, err = refDecode(b)
			}
			m = append(m, p)
		}
		return m
	}
	switch {
	case c < 0x80:
		v = int64(c)
	case c < 0x90:
		v = pairs(uint64(c & 15))
	case c < 0xa0:
		v = list(uint64(c & 15))
	case c < 0xc0:
		v = text(uint64(c & 31))
	case c >= 0xe0:
		v = int64(int8(c))
	default:
		switch c {
		case 0xc0:
			v = nil
		case 0xc1:
			err = errCut
		case 0xc2, 0xc3:
			v = c == 0xc3
		case 0xc4, 0xd9:
			v = text(number(1))
		case 0xc5, 0xda:
			v = text(number(2))
		case 0xc6, 0xdb:
			v = text(number(4))
		case 0xc7:
			v = ext(number(1))
		case 0xc8:
			v = ext(number(2))
		case 0xc9:
			v = ext(number(4))
		case 0xca:
			v = float64(math.Float32frombits(uint32(number(4))))
		case 0xcb:
			v = math.Float64frombits(number(8))
		case 0xcc:
			v = number(1)
		case 0xcd:
			v = number(2)
		case 0xce:
			v = number(4)
		case 0xcf:
			v = number(8)
		case 0xd0:
			v = int64(int8(number(1)))
		case 0xd1:
			v = int64(int16(number(2)))
		case 0xd2:
			v = int64(int32(number(4)))
		case 0xd3:
			v = int64(number(8))
		case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
			v = ext(1 << (c - 0xd4))
		case 0xdc:
			v = list(number(2))
		case 0xdd:
			v = list(number(4))
		case 0xde:
			v = pairs(number(2))
		case 0xdf:
			v = pairs(number(4))
		}
	}
	return v, b, err
}

// refJSON writes v, or says that it cannot.
func refJSON(w *strings.Builder, v any) error {
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool, int64, uint64:
		fmt.Fprint(w, v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("not a JSON number")
		}
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
			s = strconv.FormatFloat(v, 'e', -1, 64)
		} else if !strings.Contains(s, ".") {
			s += ".0"
		}
		w.WriteString(s)
	case string:
		refString(w, v)
	case []any:
		w.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := refJSON(w, e); err != nil {
				return err
			}
		}
		w.WriteByte(']')
	case refMap:
		w.WriteByte('{')
		for i, p := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			key, ok := p.key.(string)
			if !ok {
				return errors.New("key is not a string")
			}
			refString(w, key)
			w.WriteByte(':')
			if err := refJSON(w, p.value); err != nil {
				return err
			}
		}
		w.WriteByte('}')
	default:
		return fmt.Errorf("no JSON for %T", v)
	}
	return nil
}

func refString(w *strings.Builder, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\t': `\t`, '\r': `\r`, '\b': `\b`, '\f': `\f`}
	w.WriteByte('"')
	for _, r := range s {
		switch esc := short[r]; {
		case esc != "":
			w.WriteString(esc)
		case r < 0x20:
			fmt.Fprintf(w, `\u%04x`, r)
		default:
			w.WriteRune(r) // U+FFFD for each byte that is not UTF-8
		}
	}
	w.WriteByte('"')
}

func refDepth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			deepest = max(deepest, refDepth(e))
		}
		return deepest + 1
	case refMap:
		for _, p := range v {
			deepest = max(deepest, refDepth(p.value))
		}
		return deepest + 1
	}
	return 0
}

func (m refMap) get(key string) (v any, present bool) {
	for _, p := range m {
		if p.key == key {
			v, present = p.value, true
		}
	}
	return v, present
}

// refForm says what kind and apiVersion, auditID and stage make of an object.
func refForm(get func(string) (any, bool)) (isEvent, isList bool) {
	kind, hasKind := get("kind")
	version, hasVersion := get("apiVersion")
	if hasVersion && version != "audit.k8s.io/v1" {
		return false, false
	}
	id, _ := get("auditID")
	stage, _ := get("stage")
	_, idText := id.(string)
	_, stageText := stage.(string)
	isEvent = (!hasKind || kind == "Event") && idText && stageText
	list, _ := get("items")
	_, isArray := list.([]any)
	return isEvent, kind == "EventList" && isArray
}

// refEvent is an event and what there is to say of it.
type refEvent struct {
	read     string // as it was read
	restored string // with the timestamp put back, if it was
	source   any    // if bytes were replaced: the text (string) or the map (refMap)
	time     uint64
	leftOut  bool
}

// refWalk returns the events of a chunk and how many records, items and broken
// rests are skipped. seen is what is known of the tag's times.
func refWalk(chunk []byte, opt Options, seen uint32) (events []refEvent, skipped int) {
	for len(chunk) > 0 {
		v, rest, err := refDecode(chunk)
		if err != nil {
			return events, skipped + 1
		}
		chunk = rest
		sec, nsec, known, body, ok := refRecord(v)
		if !ok {
			skipped++
			continue
		}
		if known && int32(sec) < 0 && int32(sec) >= -2 {
			continue
		}
		top := true
		isEvent, isList := refForm(body.get)
		if logged, _ := body.get(opt.LogKey); !isEvent && !isList && opt.LogKey != "" {
			switch logged := logged.(type) {
			case string:
				es, n := refLine([]byte(logged))
				events, skipped = append(events, es...), skipped+n
				continue
			case refMap:
				body, top = logged, false
				isEvent, isList = refForm(body.get)
			}
		}
		add := func(m refMap) {
			var w strings.Builder
			isEvent, _ := refForm(m.get)
			if !isEvent || refDepth(m) > MaxDepth || refJSON(&w, m) != nil {
				skipped++
				return
			}
			e := refEvent{read: w.String(), restored: w.String()}
			if !refIsUTF8(m) {
				e.source = m
			}
			events = append(events, e)
		}
		switch {
		case isEvent:
			n := len(events)
			add(body)
			_, hasStage := body.get("stageTimestamp")
			_, hasRequest := body.get("requestReceivedTimestamp")
			if len(events) > n && top && hasStage != hasRequest {
				e := &events[n]
				if known {
					e.time = uint64(sec)*(1<<32) + uint64(nsec)
				}
				if known && opt.RestoreTimestamp && seen == seenFraction {
					e.restored = refRestore(e.read, body, sec, nsec)
				}
				e.leftOut = opt.RestoreTimestamp && e.restored == e.read
			}
		case isList:
			list, _ := body.get("items")
			for _, item := range list.([]any) {
				m, _ := item.(refMap)
				add(m)
			}
		default:
			skipped++
		}
	}
	return events, skipped
}

// refRecord takes a record apart.
func refRecord(v any) (sec, nsec uint32, known bool, body refMap, ok bool) {
	frame, _ := v.([]any)
	if len(frame) != 2 {
		return
	}
	header := frame[0]
	if h, isArray := header.([]any); isArray {
		header = nil
		if len(h) > 0 {
			header = h[0]
		}
	}
	if t, isExt := header.(refExt); isExt && t.kind == 0 && len(t.data) == 8 {
		sec, nsec = binary.BigEndian.Uint32(t.data), binary.BigEndian.Uint32(t.data[4:])
		known = nsec < 1e9
	}
	body, ok = frame[1].(refMap)
	return sec, nsec, known, body, ok
}

func refRestore(text string, body refMap, sec, nsec uint32) string {
	st, hasStage := body.get("stageTimestamp")
	rt, hasRequest := body.get("requestReceivedTimestamp")
	if hasStage == hasRequest || nsec%1000 > 1 && nsec%1000 != 999 {
		return text
	}
	put := time.Unix(int64(sec), int64(nsec)).Round(time.Microsecond).UTC()
	key, there := "stageTimestamp", rt
	if hasStage {
		key, there = "requestReceivedTimestamp", st
	}
	s, _ := there.(string)
	other, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return text
	}
	other = other.Truncate(time.Microsecond)
	gap := put.Sub(other)
	if hasStage {
		gap = -gap
	}
	if gap < 0 || gap > time.Hour {
		return text
	}
	return text[:len(text)-1] + `,"` + key + `":"` + put.Format("2006-01-02T15:04:05.000000Z") + `"}`
}

// refIsUTF8 says whether all keys and strings in v are UTF-8.
func refIsUTF8(v any) bool {
	switch v := v.(type) {
	case string:
		return utf8.ValidString(v)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !refIsUTF8(e) })
	case refMap:
		return !slices.ContainsFunc(v, func(p refPair) bool { return !refIsUTF8(p.key) || !refIsUTF8(p.value) })
	}
	return true
}

// refLine is encoding/json's word for a raw line.
func refLine(text []byte) (events []refEvent, skipped int) {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return nil, 1
	}
	isEvent, isList := refForm(refGet(object))
	if isEvent {
		return []refEvent{refReplace(bytes.Trim(text, " \t\r\n"))}, 0
	}
	if !isList {
		return nil, 1
	}
	var list []json.RawMessage
	if json.Unmarshal(object["items"], &list) != nil {
		return nil, 1
	}
	for _, item := range list {
		es, n := []refEvent(nil), 1
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) == nil {
			if is, _ := refForm(refGet(fields)); is {
				es, n = []refEvent{refReplace(item)}, 0
			}
		}
		events, skipped = append(events, es...), skipped+n
	}
	return events, skipped
}

func refGet(object map[string]json.RawMessage) func(string) (any, bool) {
	return func(key string) (v any, present bool) {
		raw, present := object[key]
		if !present {
			return nil, false
		}
		switch raw[0] {
		case '"':
			var s string
			_ = json.Unmarshal(raw, &s)
			return s, true
		case '[':
			return []any{}, true
		}
		return nil, true
	}
}

func refReplace(text []byte) (e refEvent) {
	var w strings.Builder
	for _, r := range string(text) {
		w.WriteRune(r)
	}
	if !utf8.ValidString(w.String()) {
		panic("reference wrote invalid UTF-8")
	}
	e.read, e.restored = w.String(), w.String()
	if !utf8.Valid(text) {
		e.source = string(text)
	}
	return e
}
