// This file fills in JSON written with blanks, such as "name":"<app>".

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// blank is a place in a template that each request fills with a value of its own.
type blank uint8

const (
	blankNone    blank = iota
	blankApp           // name of an application and of its objects
	blankCreated       // when the object was made, to the second
	blankFill          // properties of a schema that make an event as large as asked for
	blankMicro         // stageTimestamp, to the microsecond
	blankNode
	blankNodeIP
	blankNS
	blankNumber
	blankPod
	blankRatio
	blankSecond // stageTimestamp, to the second
	blankUID    // of the object
	blankVersion
)

var blanks = map[string]blank{
	"app": blankApp, "created": blankCreated, "fill": blankFill, "micro": blankMicro, "node": blankNode,
	"nodeIP": blankNodeIP, "ns": blankNS, "number": blankNumber, "pod": blankPod, "ratio": blankRatio,
	"second": blankSecond, "uid": blankUID, "version": blankVersion,
}

// template is JSON text with blanks. Its strings are escaped already, as kube-apiserver
// escapes them: <, > and & never occur in its output, so <name> cannot be mistaken.
type template []part

// part is a text and the blank behind it.
type part struct {
	text  string
	blank blank
}

// parse panics for a blank that does not exist: templates are part of the program.
func parse(text string) (t template) {
	for {
		before, rest, found := strings.Cut(text, "<")
		if !found {
			return append(t, part{text: before})
		}
		name, after, _ := strings.Cut(rest, ">")
		b, known := blanks[name]
		if !known {
			panic(fmt.Sprintf("template: no blank %q", name))
		}
		t, text = append(t, part{before, b}), after
	}
}

// The forms of metav1.Time and metav1.MicroTime.
const (
	timeForm  = "2006-01-02T15:04:05Z"
	microForm = "2006-01-02T15:04:05.000000Z"
)

// append appends the text with r's values. It needs no escaping for them: they are
// ASCII without quotes.
func (t template) append(dst []byte, r *request) []byte {
	for i := range t {
		dst = append(dst, t[i].text...)
		switch t[i].blank {
		case blankApp:
			dst = append(dst, r.app...)
		case blankCreated:
			dst = r.at.Add(-time.Duration(r.number)*17*time.Hour).AppendFormat(dst, timeForm)
		case blankFill:
			dst = appendProperties(dst, r.fill)
		case blankMicro:
			dst = r.at.AppendFormat(dst, microForm)
		case blankNode:
			dst = append(dst, r.node.name...)
		case blankNodeIP:
			dst = append(dst, r.node.ip...)
		case blankNS:
			dst = append(dst, r.ns...)
		case blankNumber:
			dst = strconv.AppendInt(dst, int64(r.number), 10)
		case blankPod:
			dst = append(append(append(dst, r.app...), '-'), r.suffix[:]...)
		case blankRatio:
			dst = strconv.AppendFloat(dst, r.ratio, 'f', -1, 64)
		case blankSecond:
			dst = r.at.AppendFormat(dst, timeForm)
		case blankUID:
			dst = append(dst, r.uid[:]...)
		case blankVersion:
			dst = strconv.AppendUint(dst, r.version, 10)
		}
	}
	return dst
}
