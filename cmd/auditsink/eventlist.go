// This file takes an audit EventList apart without touching the bytes of its events.

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

var errNotEventList = errors.New("not an audit EventList")

// event is one audit event as it was received.
type event struct {
	raw []byte // one line
	identity
}

// identity names an event in a report.
type identity struct{ auditID, stage string }

func (i identity) String() string {
	if i.auditID == "" {
		return "(no auditID)"
	}
	return strconv.Quote(i.auditID) + " " + i.stage
}

func (i identity) compare(j identity) int {
	return cmp.Or(strings.Compare(i.auditID, j.auditID), strings.Compare(i.stage, j.stage))
}

// newEvent makes an event of one line or item; what is not an event has no identity.
// It replaces raw line breaks in place.
func newEvent(raw []byte) event {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	return event{oneLine(raw), identity{text(fields["auditID"]), text(fields["stage"])}}
}

// splitEventList returns the events of an EventList body, each byte for byte as it
// stands there, but for raw line breaks: JSON has them only between tokens (inside a
// string they must be escaped), so each becomes a space and an event is one line.
// Errors do not quote the body.
func splitEventList(body []byte) ([]event, error) {
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("%w: not UTF-8", errNotEventList)
	}
	// A map and not a struct: encoding/json takes a struct's fields in any case of letters.
	var list map[string]json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: not a JSON object", errNotEventList)
	}
	if kind, version := text(list["kind"]), text(list["apiVersion"]); kind != "EventList" || version != "audit.k8s.io/v1" {
		return nil, fmt.Errorf("%w: kind and apiVersion are not EventList and audit.k8s.io/v1", errNotEventList)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(list["items"], &items); err != nil {
		return nil, fmt.Errorf("%w: items is not an array", errNotEventList)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%w: items is empty", errNotEventList)
	}
	events := make([]event, len(items))
	for i, item := range items {
		events[i] = newEvent(item)
		if events[i].auditID == "" || events[i].stage == "" {
			return nil, fmt.Errorf("%w: item %d is not an event with auditID and stage", errNotEventList, i)
		}
	}
	return events, nil
}

// text is the JSON string in raw, or "" if it is anything else.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// oneLine replaces raw line breaks in place.
func oneLine(event []byte) []byte {
	for i, b := range event {
		if b == '\n' || b == '\r' {
			event[i] = ' '
		}
	}
	return event
}
