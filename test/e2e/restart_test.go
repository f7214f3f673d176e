package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// This file ends Fluent Bit, or reloads it, while a slow receiver has chunks waiting: with
// State_Dir, and over a reload, nothing is sent twice. Of requests that are cut off at the
// end of Drain_Timeout nobody can know; none is begun for which the time is too short.

// ending is a way to end Fluent Bit and go on.
type ending struct {
	name   string
	state  bool // State_Dir is set
	drain  bool // Drain_Timeout suffices
	reload bool
}

func TestARestartRepeatsNothingWithStateDir(t *testing.T) {
	t.Parallel()
	withChunksPending(t,
		ending{name: "with State_Dir", state: true, drain: true},
		ending{name: "with State_Dir and too short a Drain_Timeout", state: true},
		ending{name: "without State_Dir"},
	)
}

func TestAReloadRepeatsNothingOfTheChunksThatWait(t *testing.T) {
	t.Parallel()
	withChunksPending(t,
		ending{name: "with a Drain_Timeout that suffices", drain: true, reload: true},
		ending{name: "with too short a Drain_Timeout", reload: true},
		ending{name: "with State_Dir and too short a Drain_Timeout", state: true, reload: true},
	)
}

// withChunksPending runs each on the bundled host, and on a real Fluent Bit in each form.
func withChunksPending(t *testing.T, endings ...ending) {
	for _, how := range endings {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				if _, ok := e.(bundledHost); ok {
					ended(t, e, how, "raw")
					return
				}
				if !long && !bench {
					t.Skip("this takes a minute on Fluent Bit: run make e2e")
				}
				for _, form := range []string{"raw", "parsed"} {
					t.Run(form, func(t *testing.T) { ended(t, e, how, form) })
				}
			})
		})
	}
}

var givenUp = regexp.MustCompile(`stopped.* given_up=(\d+) `)

func ended(t *testing.T, e engine, how ending, form string) {
	_, real := e.(realFluentBit)
	const pieces, each = 80, 15
	delay, interval, waiting, grace := time.Second, 50*time.Millisecond, 12, 1
	keys, timeout := "Flush_Timeout 500ms", "1500ms"
	if real || bench {
		delay, interval, waiting, grace = 3*time.Second, 100*time.Millisecond, 20, 5
		keys, timeout = "Flush_Timeout 2s", "5s"
	}
	if how.drain {
		timeout = "60s"
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := numbered(auditLog(t, "metadata"))[:pieces*each]
	// A batch for each chunk: what waits would go in one body.
	s := setup{dir: dir, log: log, workers: 1, grace: grace, keys: fmt.Sprintf("%s|Drain_Timeout %s|Batch_Max_Size %d", keys, timeout, each)}
	if how.state {
		s.keys += "|State_Dir " + filepath.Join(dir, "state")
	}
	if how.reload {
		s.workers = reloadWorkers(e)
	}
	var args []string
	if form == "parsed" {
		s.timeFormat = parserTime
		args = []string{"-semantic"}
	}
	write := load(t, e, log, lines, &s, each, interval)
	r := receive(t, dir, log, "", append(args, "-delay", delay.String())...)
	s.url = r.url
	begin := time.Now()
	p := e.start(t, s)
	written := make(chan struct{})
	go func() { defer close(written); write() }()
	until(t, "chunks wait and some events are stored", func() bool { return s.chunksStored(t) >= waiting && r.stored() > 0 })
	scenario := "SIGTERM with 20 chunks pending, then a start " + how.name
	var took time.Duration
	if how.reload {
		scenario = "a hot reload with 20 chunks pending " + how.name
		took = p.reload()
	} else {
		took = p.stop()
	}
	m := givenUp.FindStringSubmatch(p.String())
	if m == nil {
		t.Fatal("no account")
	}
	cut, _ := strconv.Atoi(m[1])
	before, left, requests := r.stored(), s.chunksStored(t), 0
	if how.reload {
		<-written
	} else {
		r.stop()
		before, requests = r.stored(), r.counted("requests")
		<-written
		// It stores what the first one did already as part of its count.
		r = receive(t, dir, log, r.address(), args...)
		p = e.start(t, s)
	}
	until(t, "all events are stored", func() bool { return r.distinct() >= len(lines) })
	until(t, "no chunk is left", func() bool { return s.chunksStored(t) == 0 })
	total := time.Since(begin)
	p.stop()
	v := r.verdict()
	t.Logf("the stop took %v, gave %d events up and left %d chunks with %d of %d events stored; then lost %d, duplicated %d, altered %d",
		took.Round(time.Millisecond), cut, left, before, len(lines), v.lost, v.duplicated, v.altered)
	if real {
		record(t, tableRow{scenario, "blocking", form, result{v, requests + r.counted("requests"), total}})
	}
	if left == 0 || before == 0 || before == len(lines) {
		t.Error("the stop was not in the middle")
	}
	if v.in != len(lines) || v.lost != 0 || v.altered != 0 {
		t.Errorf("want %d events, none lost or altered", len(lines))
	}
	if (how.state || how.reload) && v.duplicated != 0 {
		t.Errorf("%d duplicates, with Drain_Timeout %s", v.duplicated, timeout)
	}
	if how.drain != (cut == 0) {
		t.Errorf("%d events were given up with Drain_Timeout %s", cut, timeout)
	}
}

// slowly is a receiver's delay with which leaveChunks has chunks wait.
const slowly = "2s"

// leaveChunks has what was taken of chunks accepted before the end, and Fluent Bit too
// little time to hear of it: it has these chunks at its next start, or after a reload.
func (c *scenario) leaveChunks() {
	c.setup.workers, c.setup.grace = reloadWorkers(realFluentBit{}), 1
	c.key("Flush_Timeout 500ms")
	c.key("Drain_Timeout 20s")
}

func TestAReloadThatFailsForgetsNothing(t *testing.T) {
	t.Parallel()
	sideBySide(t, scenarioTest{name: "a reload with a wrong key and then a start", run: failedReload})
}

// failedReload has chunks that wait when the configuration turns out to be wrong, which
// ends Fluent Bit.
func failedReload(c *scenario) {
	c.leaveChunks()
	c.receive("-delay", slowly)
	c.start()
	c.grow(15*perSecond, perSecond, 0)
	until(c.T, "chunks wait and some events are stored", func() bool { return c.setup.chunksStored(c.T) >= 3 && c.r.stored() > 0 })
	wrong := c.setup
	wrong.keys += "|Mode fast"
	realFluentBit{}.configure(c.T, wrong)
	_ = c.p.cmd.Process.Signal(syscall.SIGHUP)
	c.p.wait()
	c.ended()
	if c.counted("error", `Mode "fast"`) == 0 {
		c.Error("the log does not say what is wrong")
	}
	c.pass(1)
	c.start()
	c.finishOnce(1)
}
