package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// This file has more events than Duplicate_Window, which is how many are remembered.

func TestMoreEventsThanAreRememberedArriveOnce(t *testing.T) {
	t.Parallel()
	const window = 20_000
	sideBySide(t,
		scenarioTest{name: "a backlog of five times Duplicate_Window 20000 behind a slow webhook", run: func(c *scenario) { backlogAbove(c, window, 5, true) }},
		scenarioTest{name: "a backlog of twenty times Duplicate_Window 20000", run: func(c *scenario) { backlogAbove(c, window, 20, false) }},
		scenarioTest{name: "a backlog of twenty times Duplicate_Window 20000 behind a slow webhook", run: func(c *scenario) { backlogAbove(c, window, 20, true) }},
		scenarioTest{name: "a chunk waits for its retry while five windows pass", run: func(c *scenario) { late(c, window, 5*window) }},
	)
}

// forgetsEarly is how many windows within a minute are too many: what is older is
// forgotten, and the log says so.
const forgetsEarly = 8

// backlogAbove has a backlog of several windows at the start. Behind a slow webhook it
// takes longer than Flush_Timeout to send a chunk, so that it comes back, after all that
// waits before it; by then it may be forgotten if there are too many. Its events are sent
// again in that case, but not for ever.
func backlogAbove(c *scenario, window, windows int, slow bool) {
	const bound = 4 * time.Minute
	events := windows * window
	c.key(fmt.Sprintf("Duplicate_Window %d", window))
	if slow {
		c.key("Flush_Timeout 500ms")
		c.key("Max_Concurrent_Requests 2")
		c.receive("-delay", "300ms")
	} else {
		c.receive()
	}
	c.log.write(events)
	begin := time.Now()
	c.start()
	c.await()
	took := time.Since(begin)
	left := c.chunksLeft()
	v := c.finish()
	early := windows > forgetsEarly
	// The same is said once a minute and at the end, with the times since the last line.
	warnings := c.counted("warn", "Duplicate_Window .* remembered_for=")
	again := c.counted("warn", "Duplicate_Window .* remembered_for=.* times_since=")
	c.Logf("%d chunks are left after %v, and %d warnings say how long events are remembered", left, took.Round(time.Millisecond), warnings)
	if left > 0 || took > bound {
		c.Errorf("%d chunks are left after %v, want none after at most %v", left, took, bound)
	}
	want := 0
	if early {
		want = 1
	}
	if warnings-again != want || again > 1+int(took/time.Minute) {
		c.Errorf("%d warnings say how long events are remembered, and %d more that it was so again", warnings-again, again)
	}
	switch {
	case early && slow && v.duplicated > events:
		c.Errorf("%d of %d events arrived again", v.duplicated, events)
	case !(early && slow) && v.duplicated > 0:
		c.Errorf("%d events arrived again", v.duplicated)
	}
}

// late has a first request that fails, so that the chunk is answered RETRY, and comes back
// after half a minute in which many others pass. It was accepted meanwhile.
func late(c *scenario, window, others int) {
	const first, wait = 100, 31 // events, seconds
	c.setup.retryBase, c.setup.retryCap = wait, wait+1
	c.key(fmt.Sprintf("Duplicate_Window %d", window))
	c.key("Flush_Timeout 500ms")
	c.key("Initial_Backoff 1s")
	c.receive("-fail-first", "1")
	c.log.write(first)
	begin := time.Now()
	c.start()
	until(c.T, "the first request fails", func() bool { return strings.Contains(c.p.String(), "a request failed") })
	until(c.T, "the first events are stored all the same", func() bool { return c.r.distinct() >= first })
	c.log.write(others)
	within(c.T, deadline, 200*time.Millisecond, "the others are stored", func() bool { return c.r.distinct() >= first+others })
	passed := time.Since(begin)
	left := c.setup.chunksStored(c.T)
	c.finishOnce(first)
	c.Logf("the others had passed after %v, with %d chunks left", passed.Round(time.Millisecond), left)
	if left == 0 {
		c.Error("the first chunk came back before the others had passed")
	}
}
