// This file fails requests as it was told to.

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The ways to fail without a status.
const (
	cutBefore = "cut-before"
	cutAfter  = "cut-after"
	hang      = "hang"
	drip      = "drip"
)

// dripPause is the time between two bytes of an answer that drips.
const dripPause = 100 * time.Millisecond

// fault is one way to fail.
type fault struct {
	kind       string // cutBefore, cutAfter, hang, drip; empty: by status
	status     int
	retryAfter string
}

// parseFault reads the value of a flag that says how to fail.
func parseFault(flag, how string) (fault, error) {
	switch how {
	case cutBefore, cutAfter, hang, drip:
		return fault{kind: how}, nil
	}
	status, err := strconv.Atoi(how)
	if err != nil || status < 300 || status > 599 {
		return fault{}, fmt.Errorf("%s %q: give a status from 300 to 599, %s, %s, %s or %s", flag, how, cutBefore, cutAfter, hang, drip)
	}
	return fault{status: status}, nil
}

// faults says which requests fail, and how.
type faults struct {
	fault     fault // of requests chosen by number or time
	matchWith fault // of requests chosen by match
	also      []periodic

	always       bool
	first, every int
	window       bool
	from, length time.Duration // from the start; length 0: to the end
	match        string
}

// periodic is a fault of every nth request.
type periodic struct {
	fault
	every int
}

// addAlso takes a value of -fail-also.
func (f *faults) addAlso(value string) error {
	number, how, two := strings.Cut(value, ":")
	every, err := strconv.Atoi(number)
	if err != nil || every < 1 || !two {
		return fmt.Errorf("give N:HOW, with N at least 1")
	}
	one, err := parseFault("HOW", how)
	f.also = append(f.also, periodic{one, every})
	return err
}

// set completes f with -fail-status, -retry-after and whether a time window was given.
func (f *faults) set(how, retryAfter string, window bool) error {
	f.fault, f.matchWith, f.window = fault{status: http.StatusServiceUnavailable}, fault{status: http.StatusBadRequest}, window
	if how != "" {
		told, err := parseFault("-fail-status", how)
		if err != nil {
			return err
		}
		f.fault, f.matchWith = told, told
	}
	f.fault.retryAfter, f.matchWith.retryAfter = retryAfter, retryAfter
	if f.first < 0 || f.every < 0 || f.from < 0 || f.length < 0 {
		return fmt.Errorf("-fail-first, -fail-every, -fail-from, -fail-for: give no negative value")
	}
	f.always = how != "" && f.first == 0 && f.every == 0 && !window && f.match == "" && f.also == nil
	return nil
}

// cutsBefore reports whether some requests are cut before their body is read.
func (f *faults) cutsBefore() bool {
	for _, one := range f.also {
		if one.kind == cutBefore {
			return true
		}
	}
	return f.fault.kind == cutBefore
}

// byNumber is how the nth request (from 1), which came at this time after the start,
// fails whatever it holds; nil: it does not.
func (f *faults) byNumber(n int, at time.Duration) *fault {
	if f.always || n <= f.first || f.every > 0 && n%f.every == 0 ||
		f.window && at >= f.from && (f.length == 0 || at < f.from+f.length) {
		return &f.fault
	}
	for i := range f.also {
		if n%f.also[i].every == 0 {
			return &f.also[i].fault
		}
	}
	return nil
}

// byBody is how a request with this body fails; nil: it does not.
func (f *faults) byBody(body []byte) *fault {
	if f.match != "" && bytes.Contains(body, []byte(f.match)) {
		return &f.matchWith
	}
	return nil
}

// answer fails one request and has it counted. stopping ends a request that hangs.
func (f *fault) answer(w http.ResponseWriter, r *http.Request, count func(as string), stopping <-chan struct{}) {
	switch f.kind {
	case cutBefore, cutAfter:
		count("cut")
		reset(w)
		return
	case hang:
		count(hang)
		select {
		case <-r.Context().Done():
		case <-stopping:
		}
		reset(w)
		return
	case drip:
		count(drip)
		dripUntil(w, stopping)
		return
	}
	count(strconv.Itoa(f.status))
	if f.retryAfter != "" {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	http.Error(w, "failing as told", f.status)
}

// dripUntil answers byte by byte and never comes to the end of the header: until the
// sender breaks off or stopping is closed. The status is one that accepts nothing.
func dripUntil(w http.ResponseWriter, stopping <-chan struct{}) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has no bytes of a header to give: resets the stream
	}
	defer conn.Close()
	answer := []byte("HTTP/1.1 503 Service Unavailable\r\nX-Drip: ")
	pause := time.NewTicker(dripPause)
	defer pause.Stop()
	for i := 0; ; i++ {
		next := []byte{'.'}
		if i < len(answer) {
			next[0] = answer[i]
		}
		if _, err := conn.Write(next); err != nil {
			return
		}
		select {
		case <-pause.C:
		case <-stopping:
			return
		}
	}
}

// reset ends the connection of w with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: resets the stream
	}
	raw := conn
	if t, ok := conn.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	raw.Close()
}
