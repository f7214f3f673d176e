package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file has the receivers whose failures have more than one reason at a time: an
// event that is never taken beside those that are, failures of four kinds at once, a time
// limit that depends on how much comes. What is at fault has to be found out while all
// else goes on.

// deadLetters is where the plugin sets events aside, if it is told to.
func (c *trial) deadLetters() string { return filepath.Join(c.dir, "dead") }

// marked are the auditIDs of the lines with that text in them.
func (c *trial) marked(text string) (ids []string) {
	for _, line := range c.lines {
		if strings.Contains(line, text) {
			ids = append(ids, auditIDs.FindStringSubmatch(line)[1])
		}
	}
	return ids
}

// written is when each event was, by its auditID. begin is when the load began.
func (c *trial) written(begin time.Time) map[string]time.Time {
	at := map[string]time.Time{}
	size, pause := (len(c.lines)+c.pieces-1)/c.pieces, c.during/time.Duration(c.pieces)
	for i, line := range c.lines {
		at[auditIDs.FindStringSubmatch(line)[1]] = begin.Add(time.Duration(i/size) * pause)
	}
	return at
}

// accepted is when each event was, by its auditID.
func accepted(requests []tapped) map[string]time.Time {
	at := map[string]time.Time{}
	for _, r := range requests {
		for _, id := range r.ids {
			if r.status == 200 && (at[id].IsZero() || r.answered.Before(at[id])) {
				at[id] = r.answered
			}
		}
	}
	return at
}

var rejections = regexp.MustCompile(`stopped.* rejected=(\d+) `)

// wantKept asserts that the receiver never accepted the events with these auditIDs and
// that each is either set aside or still to be delivered, and that no other was set aside.
// The host has ended.
func (c *trial) wantKept(p *process, ids []string, requests []tapped) {
	c.Helper()
	took := accepted(requests)
	for _, id := range ids {
		if !took[id].IsZero() {
			c.Errorf("the receiver took %s", id)
		}
	}
	aside := map[string]int{}
	text, _ := os.ReadFile(filepath.Join(c.deadLetters(), "rejected.log")) // or there is none
	for line := range strings.Lines(string(text)) {
		m := auditIDs.FindStringSubmatch(line)
		if m == nil || !slices.Contains(ids, m[1]) {
			c.Errorf("set aside, although it is not at fault: %s", line)
			continue
		}
		aside[m[1]]++
		if c.form == "raw" && !slices.Contains(c.lines, strings.TrimSuffix(line, "\n")) {
			c.Errorf("set aside, but not as it was: %s", line)
		}
	}
	// What is undelivered is in files of the plugin, or in chunks that the host keeps.
	var files []string
	for _, pattern := range []string{c.deadLetters() + "/undelivered-*", c.dir + "/storage/*", c.dir + "/storage/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			c.Fatal(err)
		}
		files = append(files, found...)
	}
	var undelivered strings.Builder
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			undelivered.WriteString(readFile(c.T, file))
		}
	}
	kept := 0
	for _, id := range ids {
		still := strings.Contains(undelivered.String(), id)
		if still {
			kept++
		}
		if aside[id] > 1 || aside[id] == 0 && !still {
			c.Errorf("%s is %d times in rejected.log, and undelivered: %v; want it once in the one, or in the other", id, aside[id], still)
		}
	}
	c.Logf("of %d events that are never accepted, %d are set aside, %d are in files of undelivered events or chunks", len(ids), len(aside), kept)
	if m := rejections.FindStringSubmatch(p.String()); m == nil || m[1] != strconv.Itoa(len(aside)) {
		c.Errorf("the account says %q, want rejected=%d", m, len(aside))
	}
}

// await waits until the receiver has all events that it accepts, for no longer after the
// start than limit: finish waits longer than such a row should take.
func (c *trial) await(p *process, r *receiver, limit time.Duration) {
	c.Helper()
	within(c.T, time.Until(c.begin.Add(limit)).Round(time.Second), 20*time.Millisecond, "all events but the refused ones are stored", func() bool {
		return p.ended() || r.distinct() >= len(c.lines)-c.refused
	})
}

// hostRetry is how long a host may wait before it gives a chunk again: the
// longest that it is told to, and a second more for Fluent Bit.
func (c *trial) hostRetry() time.Duration {
	if _, ok := c.e.(realFluentBit); ok {
		return 6 * time.Second
	}
	return 2 * time.Second
}

// neverAnswersOne is a receiver that does not answer a body with one event of 2,000 in it.
func neverAnswersOne(c *trial) {
	const every, mark = 2000, "-unanswered-"
	lines, during := auditLog(c.T, "metadata"), 3*time.Second
	if bench { // with more such events than requests at a time, which are tried side by side
		lines, during = copies(lines, concurrent+1), 15*time.Second
	}
	for i := every / 3; i < len(lines); i += every {
		lines[i] = strings.Replace(lines[i], `"auditID":"`, `"auditID":"`+mark[1:], 1)
	}
	c.timeout = unanswered
	s := c.prepare(lines, len(lines)/200, during, "Dead_Letter_Dir "+c.deadLetters())
	bad := c.marked(mark)
	c.refused = len(bad)
	// Those beside them wait until the one is found, one Request_Timeout after another.
	c.patience = time.Minute
	r := c.receive("-fail-match", mark, "-fail-status", "hang")
	tap := newTap(c.T, r.url, through)
	s.url = tap.URL
	p := c.start(s)
	begin := time.Now()
	c.write()
	c.await(p, r, c.during+c.patience+time.Second) // finish asserts it
	c.finish(p, r, c.begin)

	requests := tap.all()
	beside := map[string]bool{}
	hung := 0
	for _, r := range requests {
		if slices.ContainsFunc(r.ids, func(id string) bool { return slices.Contains(bad, id) }) {
			hung++
			for _, id := range r.ids {
				beside[id] = true
			}
		}
	}
	written, took := c.written(begin), accepted(requests)
	var longest, longestBeside time.Duration
	others := 0
	for id, at := range took {
		wait := at.Sub(written[id])
		if beside[id] {
			longestBeside = max(longestBeside, wait)
			continue
		}
		others++
		longest = max(longest, wait)
	}
	c.Logf("%d of %d requests were not answered; %d events were never sent beside one of the %d, the last of them was accepted %v after it was written; %d were, %v",
		hung, len(requests), others, len(bad), longest.Round(time.Millisecond), len(beside)-len(bad), longestBeside.Round(time.Millisecond))
	// Requests that are not answered may hold up the others twice before it is known
	// what they are, and the host may have been told to try again later.
	if bound := 2*unanswered + c.hostRetry() + time.Second; longest > bound {
		c.Errorf("an event that was never sent beside one of the %d waited for %v, want at most %v", len(bad), longest, bound)
	}
	if others < len(c.lines)/2 {
		c.Errorf("%d events of %d were never sent beside one that is not answered, want at least half", others, len(c.lines))
	}
	for _, id := range bad {
		if !beside[id] {
			c.Errorf("%s was not sent", id)
		}
	}
	c.wantKept(p, bad, requests)
}

// firewalledOne is a receiver behind a firewall that does not let an event through.
func firewalledOne(c *trial) {
	const attack = "<script>"
	during := 3 * time.Second
	if bench {
		during = 15 * time.Second
	}
	lines := auditLog(c.T, "metadata")
	i := len(lines) / 3
	lines[i] = strings.Replace(lines[i], `"userAgent":"`, `"userAgent":"`+attack+`alert(1)</script> `, 1)
	s := c.prepare(lines, 10, during, "Dead_Letter_Dir "+c.deadLetters()) // in few pieces: many events are beside it
	bad := c.marked(attack)
	c.refused, c.patience = len(bad), 20*time.Second
	r := c.receive("-fail-match", attack, "-fail-status", "403")
	tap := newTap(c.T, r.url, through)
	s.url = tap.URL
	p := c.start(s)
	c.write()
	c.await(p, r, c.during+c.patience+time.Second) // finish asserts it
	c.finish(p, r, c.begin)

	requests := tap.all()
	beside := map[string]bool{}
	refused, alone := 0, 0
	for _, r := range requests {
		if !slices.Contains(r.ids, bad[0]) {
			continue
		}
		refused++
		if len(r.ids) == 1 {
			alone++
		}
		for _, id := range r.ids {
			beside[id] = true
		}
	}
	c.Logf("%d of %d requests were answered 403, %d of them with the one alone; it was sent beside %d others", refused, len(requests), alone, len(beside)-1)
	if len(bad) != 1 || alone == 0 || len(beside) < 2 {
		c.Error("want one event that is refused, beside others and then alone")
	}
	c.wantKept(p, bad, requests)
}

var errorLines = regexp.MustCompile(`(?m)^.*\[ *error\] \[output:k8saudit:.*$`)

// mixedReceiver fails in four ways, each with a rule of its own.
func mixedReceiver(c *trial) {
	const (
		most      = 300 * time.Second
		requests  = 600
		errors    = 60
		asked     = time.Second // Retry-After
		bodyLimit = 120_000
	)
	s := c.prepare(copies(auditLog(c.T, "metadata"), 4), 20, 10*time.Second, "")
	s.keys = strings.Replace(s.keys, "Max_Backoff "+longestBackoff.String(), "Max_Backoff "+asked.String(), 1)
	c.patience = most
	r := c.receive(
		"-fail-every", "3", "-fail-status", "503", "-retry-after", fmt.Sprint(asked.Seconds()),
		"-fail-also", "5:cut-after", "-fail-also", "7:500",
		"-max-body", strconv.Itoa(bodyLimit), "-max-body-status", "400")
	s.url = r.url
	p := c.start(s)
	c.write()
	c.await(p, r, most)
	res := c.finish(p, r, c.begin)
	said := errorLines.FindAllString(p.String(), -1)
	answers := map[string]int{}
	for _, as := range []string{"200", "503", "cut", "500", "400"} {
		answers[as] = r.counted(as)
		if answers[as] == 0 {
			c.Errorf("no request was answered %s", as)
		}
	}
	c.Logf("%d requests, by their answers %v; %d lines of level error; %v", res.requests, answers, len(said), res.took.Round(time.Millisecond))
	if res.requests > requests {
		c.Errorf("%d requests, want at most %d", res.requests, requests)
	}
	if len(said) > errors {
		c.Errorf("%d lines of level error, want at most %d", len(said), errors)
	}
	if res.took > most {
		c.Errorf("it took %v, want at most %v", res.took, most)
	}
}

// slowGateway is a receiver that takes its time for each event, behind a gateway that
// does not wait for long. It is a real one's 50 ms and 10 s, ten times as fast.
func slowGateway(c *trial) {
	const (
		event, patience = 5 * time.Millisecond, time.Second // so that 200 events are in time
		lot, every      = 1200, 3 * time.Second
		learning        = 15 * time.Second // what comes later is in time
		// Events differ in size, so that no size of body is always in time.
		bound = 45 * time.Second
	)
	lots := 7
	if bench {
		lots = 20
	}
	log := auditLog(c.T, "metadata")
	lines := copies(log, lots*lot/len(log)+1)[:lots*lot]
	s := c.prepare(lines, lots, time.Duration(lots)*every, "")
	c.patience = bound
	r := c.receive("-delay-event", event.String(), "-give-up", patience.String())
	tap := newTap(c.T, r.url, through)
	s.url = tap.URL
	p := c.start(s)
	begin := time.Now()
	c.write()
	c.await(p, r, c.during+c.patience+time.Second) // finish asserts it
	c.finish(p, r, c.begin)

	requests := tap.all()
	written, took := c.written(begin), accepted(requests)
	waits := make([]time.Duration, lots) // for the last event of each
	for i, line := range c.lines {
		id := auditIDs.FindStringSubmatch(line)[1]
		waits[i/lot] = max(waits[i/lot], took[id].Sub(written[id]).Round(10*time.Millisecond))
	}
	c.Logf("%d of %d requests were answered 504; the lots took %v", r.counted("504"), len(requests), waits)
	if r.counted("504") == 0 {
		c.Error("the gateway never gave up")
	}
	for i, wait := range waits {
		if at := time.Duration(i) * every; at >= learning && wait > bound {
			c.Errorf("the lot that came after %v took %v, want at most %v", at, wait, bound)
		}
	}
}
