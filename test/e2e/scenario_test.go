package e2e

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file is the frame of the scenarios in which Fluent Bit gives events again: a log
// that grows, a real Fluent Bit that may be ended and started, a receiver that may be
// away, and the verdict.

// scenario is one pipeline.
type scenario struct {
	*testing.T
	name, form string // the form is raw or parsed
	setup      setup
	log        *rotatedLog
	r          *receiver
	args       []string // of the receiver
	p          *process
	said       []string // by the processes that have ended
	kills      []kill
	mayLose    int // events
	requests   int // of the receivers that have ended
	begin      time.Time
}

// kill is when a process was killed: it died between the two.
type kill struct{ signalled, dead time.Time }

// scenarioTest is a scenario to run, in each of the forms.
type scenarioTest struct {
	name  string   // without a comma: the folder has it in its name, and the key Path takes several
	forms []string // nil: raw and parsed
	run   func(c *scenario)
}

// running bounds how many scenarios run at once. They mostly wait.
var running = make(chan struct{}, atOnce)

// sideBySide runs scenarios at once, on a real Fluent Bit.
func sideBySide(t *testing.T, tests ...scenarioTest) {
	t.Helper()
	if fluentBit == "" {
		t.Skip("no Fluent Bit here: set FLUENT_BIT to test on one")
	}
	if !long && !bench {
		t.Skip("on a real Fluent Bit this takes minutes: run make e2e")
	}
	var all sync.WaitGroup
	for _, test := range tests {
		forms := test.forms
		if forms == nil {
			forms = []string{"raw", "parsed"}
		}
		for _, form := range forms {
			running <- struct{}{}
			all.Go(func() {
				defer func() { <-running }()
				t.Run(test.name+"/"+form, func(t *testing.T) { test.run(newScenario(t, test.name, form)) })
			})
		}
	}
	all.Wait()
}

// What the shipped configurations have.
const (
	rotateWait = 5
	refresh    = 5
)

// newScenario has an empty log, a pipeline that reads it by its pattern, and State_Dir.
func newScenario(t *testing.T, name, form string) *scenario {
	t.Helper()
	dir := t.TempDir()
	c := &scenario{T: t, name: name, form: form, log: newRotatedLog(t, dir), begin: time.Now()}
	c.setup = setup{
		dir: dir, inputs: []input{{path: c.log.pattern()}}, workers: 1, rotateWait: rotateWait, refresh: refresh,
		keys: "State_Dir " + dir + "/state",
	}
	if form == "parsed" {
		c.setup.timeFormat = parserTime
		c.args = []string{"-semantic"}
	}
	return c
}

func (c *scenario) key(key string) { c.setup.keys += "|" + key }

// receive starts the receiver, at the address that it had before.
func (c *scenario) receive(args ...string) {
	c.Helper()
	address := ""
	if c.r != nil {
		address = c.r.address()
	}
	c.r = receive(c.T, c.setup.dir, c.log.pattern(), address, append(args, c.args...)...)
	if c.setup.url == "" {
		c.setup.url = c.r.url
	}
}

// goAway ends the receiver.
func (c *scenario) goAway() {
	c.Helper()
	c.r.stop()
	c.requests += c.r.counted("requests")
}

// start starts Fluent Bit.
func (c *scenario) start() {
	c.Helper()
	c.p = realFluentBit{}.start(c.T, c.setup)
}

// stop ends Fluent Bit as Kubernetes does.
func (c *scenario) stop() time.Duration {
	c.Helper()
	if c.p.ended() {
		c.Fatal("Fluent Bit has ended by itself")
	}
	took := c.p.stop()
	c.ended()
	return took
}

// kill ends Fluent Bit with kill -9.
func (c *scenario) kill() {
	c.Helper()
	if c.p.ended() {
		c.Fatal("Fluent Bit has ended by itself")
	}
	k := kill{signalled: time.Now()}
	_ = c.p.cmd.Process.Kill()
	c.p.wait()
	k.dead = time.Now()
	c.kills = append(c.kills, k)
	c.ended()
}

func (c *scenario) ended() { c.said = append(c.said, c.p.String()) }

// grow writes to the log beside what follows.
func (c *scenario) grow(events, perSecond int, every time.Duration) {
	c.log.grow(events, perSecond, every, c.log.rotate)
}

// pass lets time go by: where it stands, time is the subject.
func (c *scenario) pass(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

// arrived says whether the receiver has all events, or where some may be lost the last.
func (c *scenario) arrived() bool {
	if c.mayLose > 0 {
		return c.r.store.has(c.T, c.log.line(c.log.events()-1))
	}
	return c.r.distinct() >= c.log.events()
}

var brokenChunk = regexp.MustCompile(`format check failed: (\S+)`)

// chunksLeft is how many chunks Fluent Bit has. A kill in the moment in which it makes the
// file of one leaves a file without content, which it complains of at each start and never
// touches again. in_tail reads its lines again.
func (c *scenario) chunksLeft() int {
	broken := map[string]bool{}
	for _, m := range brokenChunk.FindAllStringSubmatch(c.p.String(), -1) {
		broken[m[1]] = true
	}
	return c.setup.chunksStored(c.T) - len(broken)
}

// await waits until the receiver has all events, each once at least, and no chunk is
// left. It gives up, and leaves the rest to the verdict, when nothing arrives any more, or
// the same again and again.
func (c *scenario) await() {
	c.Helper()
	const patience = 45 * time.Second
	stored, since := 0, time.Now()
	for {
		n := c.r.stored()
		switch {
		case n > 3*c.log.events():
			c.Errorf("%d events are stored of %d, with %d chunks left: they arrive again and again", n, c.log.events(), c.chunksLeft())
			return
		case c.arrived() && c.chunksLeft() == 0:
			return
		case n > stored:
			stored, since = n, time.Now()
		case time.Since(since) > patience:
			c.Errorf("nothing arrived for %v: %d of %d events are stored, %d chunks are left", patience, c.r.distinct(), c.log.events(), c.chunksLeft())
			return
		case c.p.ended():
			c.Fatal("Fluent Bit has ended by itself")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// awaitCopies waits for what in_tail reads again after a rotation: it comes so late at
// most.
func (c *scenario) awaitCopies() {
	c.Helper()
	if c.log.rotations == 0 {
		return
	}
	c.pass(float64(2*c.setup.rotateWait + c.setup.refresh + 3))
	c.await()
}

// suppressed is how many events came again and were not sent, as the processes that have
// ended say. One that was killed says nothing.
func (c *scenario) suppressed() int { return suppressed(strings.Join(c.said, "\n")) }

// finish ends both sides once all is there and asserts that nothing is altered,
// or lost that may not be.
func (c *scenario) finish() verdict {
	c.Helper()
	c.log.wait()
	c.await()
	took := time.Since(c.begin)
	c.awaitCopies()
	c.stop()
	v := c.r.verdict()
	c.requests += c.r.counted("requests")
	c.Logf("%s, %s: events %d, lost %d, duplicated %d, altered %d; %d rotations, %d read again and not sent, %d requests",
		c.name, c.form, v.in, v.lost, v.duplicated, v.altered, c.log.rotations, c.suppressed(), c.requests)
	record(c.T, tableRow{c.name, c.mode(), c.form, result{v, c.requests, took}})
	if v.in != c.log.events() || v.lost > c.mayLose || v.altered != 0 {
		c.Errorf("want %d events, %d of them lost at most, none altered", c.log.events(), c.mayLose)
	}
	return v
}

var modeKey = regexp.MustCompile(`(?:^|\|)Mode (\w+)`)

func (c *scenario) mode() string {
	if m := modeKey.FindStringSubmatch(c.setup.keys); m != nil {
		return m[1]
	}
	return "blocking"
}

// finishOnce is finish and asserts that each event arrived once, although at least so
// many were read again.
func (c *scenario) finishOnce(again int) {
	c.Helper()
	v := c.finish()
	if v.duplicated != 0 {
		c.Errorf("%d events arrived twice", v.duplicated)
	}
	if n := c.suppressed(); n < again {
		c.Errorf("the log says that %d events came again, want at least %d", n, again)
	}
}

// counted is how often the processes that have ended wrote a line at that level with
// text in it.
func (c *scenario) counted(level, text string) int {
	return len(regexp.MustCompile(`(?m)\[ *`+level+`\] \[output:k8saudit:.*`+text).FindAllString(strings.Join(c.said, "\n"), -1))
}
