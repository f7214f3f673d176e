package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// This file kills Fluent Bit, again and again, in the middle of a load. Of what was under
// way at a kill nobody can know whether it is stored: these events may come twice, and no
// others.

// within is until for what takes longer, or costs something to find out.
func within(t *testing.T, limit, every time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(every) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// mostUnderWay is Max_Concurrent_Requests' default.
const mostUnderWay = 4

// answerTime is how long an answer may be on its way, and its events on theirs into the
// journal, on a busy machine.
const answerTime = 150 * time.Millisecond

// requestSeen is a line of the receiver's requests.
type requestSeen struct {
	Begin, End    time.Time
	First, Events int // its lines in the store, from 1
}

func (k kill) during(r requestSeen) bool {
	return r.Begin.Before(k.dead) && r.End.Add(answerTime).After(k.signalled)
}

// wantRepeatsOfKills asserts that what came more than once was under way at a kill, by the
// receiver's log: at most mostUnderWay requests at each.
func (c *scenario) wantRepeatsOfKills(v verdict) {
	c.Helper()
	var requests []requestSeen
	for line := range bytes.Lines([]byte(readFile(c.T, c.r.requests))) {
		var r requestSeen
		if err := json.Unmarshal(line, &r); err != nil {
			c.Fatal(err)
		}
		requests = append(requests, r)
	}
	of := map[int]int{} // the request of each line
	for i, r := range requests {
		for n := range r.Events {
			of[r.First+n] = i
		}
	}
	last := map[string]int{} // the line that an event came in the last time
	number := 0
	var before []int // the lines of events that came again
	for line := range bytes.Lines([]byte(readFile(c.T, c.r.store.name))) {
		number++
		id := string(auditIDs.FindSubmatch(line)[1])
		if n, again := last[id]; again {
			before = append(before, n)
		}
		last[id] = number
	}

	repeated := make([]map[int]int, len(c.kills)) // events by request
	other := 0
	for _, line := range before {
		i, known := of[line]
		at := -1
		for n, k := range c.kills {
			if known && k.during(requests[i]) {
				at = n
			}
		}
		if at < 0 {
			other++
			continue
		}
		if repeated[at] == nil {
			repeated[at] = map[int]int{}
		}
		repeated[at][i]++
	}
	underWay, events := 0, 0 // over all kills
	for n, k := range c.kills {
		now := 0
		for _, r := range requests {
			if k.during(r) {
				now += r.Events
				underWay++
			}
		}
		events += now
		again := 0
		for _, n := range repeated[n] {
			again += n
		}
		if len(repeated[n]) > mostUnderWay || again > now {
			c.Errorf("at kill %d %d requests came again with %d events, want at most %d requests with the %d events that were under way", n, len(repeated[n]), again, mostUnderWay, now)
		}
	}
	c.Logf("%d kills, with %d requests of %d events under way; %d events came again", len(c.kills), underWay, events, len(before))
	if other > 0 {
		c.Errorf("%d events came again that were not under way at a kill", other)
	}
	if v.duplicated != len(before) {
		c.Errorf("%d duplicates, but %d events came again", v.duplicated, len(before))
	}
	if underWay == 0 {
		c.Error("nothing was under way at any kill")
	}
}

func TestAKilledFluentBitLosesAtMostTheBufferOfModeBatch(t *testing.T) {
	t.Parallel()
	if !bench {
		t.Skip("50 kills take two minutes: run make chaos")
	}
	raw := []string{"raw"}
	sideBySide(t,
		scenarioTest{name: killing + " in mode blocking", forms: raw, run: func(c *scenario) { killed(c, "blocking") }},
		scenarioTest{name: killing + " in mode batch", forms: raw, run: func(c *scenario) { killed(c, "batch") }},
	)
}

const killing = "50 times kill -9 of Fluent Bit"

// killed begins with a backlog, and is behind again after each fifth kill.
func killed(c *scenario, mode string) {
	const kills, buffer, backlog, load = 50, 2000, 100_000, 100_000
	seed := uint64(time.Now().UnixNano())
	c.Logf("seed %d", seed)
	c.name = killing // both are rows of one scenario
	chance := rand.New(rand.NewPCG(seed, 0))
	c.key("Mode " + mode)
	c.key(fmt.Sprintf("Batch_Buffer_Size %d", buffer))
	if mode == "batch" {
		c.mayLose = kills * buffer
	}
	c.receive("-delay", "50ms")
	c.log.write(backlog)
	c.grow(load, perSecond, rotateEvery)
	for i := range kills {
		c.start()
		c.pass(0.1 + 1.7*chance.Float64()) // any moment
		c.kill()
		if i%5 == 4 {
			c.pass(4)
		}
	}
	c.start()
	c.wantRepeatsOfKills(c.finish())
}
