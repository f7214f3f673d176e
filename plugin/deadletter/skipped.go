// This file is the form of what was not understood.

package deadletter

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Skipped is something that is no audit event.
type Skipped struct {
	Tag    string
	Reason string
	Raw    []byte
}

// Skip appends s to skipped.log, with the time. When it returns nil the line is
// with the operating system: it survives the process, but perhaps not the machine.
// After an error nothing of it is in the file. A part of a line that a crash left is
// taken for something that is not understood.
func (d *Dir) Skip(s Skipped) error {
	return d.skip(s, len(s.Raw))
}

// skip is Skip for something of that length, of which s may have the beginning alone.
func (d *Dir) skip(s Skipped, length int) error {
	line := d.skippedLine(s, length)
	return d.locked(func(h *held) error { return h.append(skippedLog, line, false) })
}

func (d *Dir) skippedLine(s Skipped, length int) []byte {
	record := struct {
		Time   time.Time `json:"time"`
		Tag    string    `json:"tag"`
		Reason string    `json:"reason"`
		Bytes  int       `json:"bytes"`
		Raw    *string   `json:"raw,omitempty"`
		Base64 []byte    `json:"base64,omitempty"`
	}{Time: time.Now().UTC(), Tag: s.Tag, Reason: s.Reason, Bytes: length}
	if text, is := textOf(s.Raw, d.limits.raw); is {
		record.Raw = &text
	} else {
		record.Base64 = s.Raw[:min(len(s.Raw), d.limits.raw)]
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	// Nothing in a record can fail to be encoded: strings, bytes, a number, a time of
	// this age.
	_ = e.Encode(record)
	return line.Bytes()
}

// textOf returns the first bytes of raw, no more than limit, if they are UTF-8. A
// character that the limit cuts is left out.
func textOf(raw []byte, limit int) (string, bool) {
	if len(raw) > limit {
		end := limit
		for end > limit-utf8.UTFMax && end > 0 && !utf8.RuneStart(raw[end]) {
			end--
		}
		raw = raw[:end]
	}
	return string(raw), utf8.Valid(raw)
}
