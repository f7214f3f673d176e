//go:build floor

package main

// This file makes bodies of a chunk, in steps: its bytes, its lines, its events.

import (
	"bytes"
	"encoding/binary"

	"out_k8saudit/plugin/record"
)

const (
	bodySize = 1 << 20
	opening  = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	closing  = `]}`
)

// recordStart is how in_tail begins a record: a pair of a pair, and a time of
// extension type 0.
var recordStart = []byte{0x92, 0x92, 0xd7, 0x00}

var body = make([]byte, 0, 2*bodySize)

// copied posts the chunk's bytes as they are, which no webhook understands. A body ends
// where a record seems to, so that the receiver can count.
func copied(chunk []byte, post func([]byte) bool) bool {
	for len(chunk) > 0 {
		n := len(chunk)
		if n > bodySize {
			if i := bytes.LastIndex(chunk[:bodySize], recordStart); i > 0 {
				n = i
			} else if i := bytes.Index(chunk[bodySize:], recordStart); i >= 0 {
				n = bodySize + i
			}
		}
		body = append(body[:0], chunk[:n]...)
		if !post(body) {
			return false
		}
		chunk = chunk[n:]
	}
	return true
}

// joined posts the raw lines as EventLists, unchecked.
func joined(chunk []byte, post func([]byte) bool) bool {
	return lists(post, func(body []byte) ([]byte, bool) {
		var line []byte
		if line, chunk = nextLine(chunk); line == nil {
			return body, false
		}
		return append(body, line...), true
	})
}

// read posts what out_k8saudit's reader makes of the chunk: raw lines that are checked,
// parsed records as JSON.
func read(restoreTimestamp bool) func([]byte, func([]byte) bool) bool {
	r := record.NewReader(&record.Options{LogKey: "log", RestoreTimestamp: restoreTimestamp})
	times := new(record.Times)
	return func(chunk []byte, post func([]byte) bool) bool {
		r.Reset(chunk, times)
		return lists(post, r.Next)
	}
}

// lists posts EventLists of what next appends.
func lists(post func([]byte) bool, next func([]byte) ([]byte, bool)) bool {
	for more := true; more; {
		body = append(body[:0], opening...)
		for len(body) < bodySize {
			if body, more = next(body); !more {
				break
			}
			body = append(body, ',')
		}
		if len(body) == len(opening) {
			break
		}
		if !post(append(body[:len(body)-1], closing...)) {
			return false
		}
	}
	return true
}

// nextLine is the line of the first record, which is laid out as in_tail does it: the
// head, a time, a map of no metadata, and a map of one string.
func nextLine(chunk []byte) (line, rest []byte) {
	const upToKey = 4 + 8 + 5 + 5
	at := upToKey + len("\xa3log")
	if len(chunk) < at+5 {
		return nil, nil
	}
	n := 0
	switch head := chunk[at:]; head[0] {
	case 0xd9:
		at, n = at+2, int(head[1])
	case 0xda:
		at, n = at+3, int(binary.BigEndian.Uint16(head[1:]))
	case 0xdb:
		at, n = at+5, int(binary.BigEndian.Uint32(head[1:]))
	}
	if n == 0 || at+n > len(chunk) {
		return nil, nil
	}
	return chunk[at : at+n], chunk[at+n:]
}
