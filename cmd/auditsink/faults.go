// This file fails requests as it was told to.

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
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

// faults says which requests fail, and how.
type faults struct {
	kind       string // cutBefore, cutAfter, hang, drip; empty: by status
	status     int    // of requests chosen by number or time
	matchWith  int    // status of requests chosen by match
	retryAfter string

	always       bool
	first, every int
	window       bool
	from, length time.Duration // from the start; length 0: to the end
	match        string
}

// set completes f with -fail-status and whether a time window was given.
func (f *faults) set(how string, window bool) error {
	f.status, f.matchWith, f.window = http.StatusServiceUnavailable, http.StatusBadRequest, window
	switch how {
	case "":
	case cutBefore, cutAfter, hang, drip:
		f.kind = how
	default:
		status, err := strconv.Atoi(how)
		if err != nil || status < 300 || status > 599 {
			return fmt.Errorf("-fail-status %q: give a status from 300 to 599, %s, %s, %s or %s", how, cutBefore, cutAfter, hang, drip)
		}
		f.status, f.matchWith = status, status
	}
	if f.first < 0 || f.every < 0 || f.from < 0 || f.length < 0 {
		return fmt.Errorf("-fail-first, -fail-every, -fail-from, -fail-for: give no negative value")
	}
	f.always = how != "" && f.first == 0 && f.every == 0 && !window && f.match == ""
	return nil
}

// byNumber reports whether the nth request (from 1), which came at this time after the
// start, fails whatever it holds.
func (f *faults) byNumber(n int, at time.Duration) bool {
	return f.always || n <= f.first || f.every > 0 && n%f.every == 0 ||
		f.window && at >= f.from && (f.length == 0 || at < f.from+f.length)
}

// byBody reports whether a request with this body fails.
func (f *faults) byBody(body []byte) bool {
	return f.match != "" && bytes.Contains(body, []byte(f.match))
}

// answer fails one request and has it counted. stopping ends a request that hangs.
func (f *faults) answer(w http.ResponseWriter, r *http.Request, status int, count func(as string), stopping <-chan struct{}) {
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
	count(strconv.Itoa(status))
	if f.retryAfter != "" {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	http.Error(w, "failing as told", status)
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
