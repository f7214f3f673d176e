// This file counts requests and remembers which events came how often.

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// snapshot is the counts at one moment.
type snapshot struct {
	requests, batches, events, duplicates int
	bad, gzipped, http2, connections      int
	bytes, largest                        int64
	answers                               map[string]int
}

// tally is what a receiver has seen. Its methods may be called from any goroutine.
type tally struct {
	how comparison

	mu     sync.Mutex
	counts snapshot
	got    map[sum]*seen
}

// seen is one event and how often it came.
type seen struct {
	identity
	times int
}

func newTally(how comparison) *tally {
	return &tally{how: how, counts: snapshot{answers: map[string]int{}}, got: map[sum]*seen{}}
}

// request counts one, made in this major version of HTTP, and returns its number, from 1.
func (t *tally) request(version int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.requests++
	if version == 2 {
		t.counts.http2++
	}
	return t.counts.requests
}

func (t *tally) connection() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.connections++
}

func (t *tally) answer(as string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.answers[as]++
}

func (t *tally) badBody() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.bad++
}

// gzip counts a request whose body is compressed.
func (t *tally) gzip() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.gzipped++
}

// body counts the bytes of one, as they came.
func (t *tally) body(size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.bytes += size
	t.counts.largest = max(t.counts.largest, size)
}

// batch counts the events of one stored body and returns the new total.
func (t *tally) batch(events []event) int {
	for _, e := range events {
		t.count(e)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.batches++
	return t.counts.events
}

// count counts one stored event.
func (t *tally) count(e event) {
	key := t.how.item(e.raw)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.events++
	if s := t.got[key]; s != nil {
		s.times++
		t.counts.duplicates++
		return
	}
	t.got[key] = &seen{identity: e.identity, times: 1}
}

func (t *tally) snapshot() snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.answers = maps.Clone(c.answers)
	return c
}

// report prints the counts, one a line.
func (t *tally) report(w io.Writer, discarded bool) {
	c := t.snapshot()
	var answers []string
	for _, as := range slices.Sorted(maps.Keys(c.answers)) {
		answers = append(answers, fmt.Sprintf("%s=%d", as, c.answers[as]))
	}
	if answers == nil {
		answers = []string{"none"}
	}
	fmt.Fprintf(w, "requests: %d\nanswers: %s\n", c.requests, strings.Join(answers, " "))
	if !discarded {
		fmt.Fprintf(w, "batches: %d\nevents: %d\nduplicates: %d\n", c.batches, c.events, c.duplicates)
	}
	fmt.Fprintf(w, "bad: %d\ngzip: %d\nhttp2: %d\nconnections: %d\nbytes: %d\nlargest body: %d\n", c.bad, c.gzipped, c.http2, c.connections, c.bytes, c.largest)
}
