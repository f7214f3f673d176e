package e2e

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file stops Fluent Bit while a slow receiver has chunks waiting, and starts it
// again, or reloads it: with State_Dir, and over a reload, nothing is sent twice.

func TestARestartRepeatsNothingWithStateDir(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		state, drain bool // State_Dir is set, Drain_Timeout suffices
	}{
		{"with State_Dir", true, true},
		{"with State_Dir and too short a Drain_Timeout", true, false},
		{"without State_Dir", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) { restarted(t, e, tt.name, tt.state, tt.drain, false) })
		})
	}
}

func TestAReloadRepeatsNothingOfTheChunksThatWait(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e engine) { restarted(t, e, "", false, false, true) })
}

var givenUp = regexp.MustCompile(`stopped.* given_up=(\d+) `)

func restarted(t *testing.T, e engine, how string, state, drain, reload bool) {
	_, real := e.(realFluentBit)
	if real && !bench {
		t.Skip("this takes a minute on Fluent Bit: run make chaos")
	}
	const pieces, each = 80, 15
	delay, interval, waiting, grace := time.Second, 50*time.Millisecond, 12, 1
	keys, timeout := "Flush_Timeout 500ms", "1500ms"
	if bench {
		delay, interval, waiting, grace = 3*time.Second, 100*time.Millisecond, 20, 5
		keys, timeout = "Flush_Timeout 2s", "5s"
	}
	if drain {
		timeout = "60s"
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := numbered(auditLog(t, "metadata"))[:pieces*each]
	s := setup{dir: dir, log: log, workers: 1, grace: grace, keys: keys + "|Drain_Timeout " + timeout}
	if state {
		s.keys += "|State_Dir " + filepath.Join(dir, "state")
	}
	if reload {
		s.workers = reloadWorkers(e)
	}
	write := load(t, e, log, lines, &s, each, interval)
	r := receive(t, dir, log, "", "-delay", delay.String())
	s.url = r.url
	begin := time.Now()
	p := e.start(t, s)
	written := make(chan struct{})
	go func() { defer close(written); write() }()
	until(t, "chunks wait and some events are stored", func() bool { return s.chunksStored(t) >= waiting && r.stored() > 0 })
	scenario := "SIGTERM with 20 chunks pending, then a start " + how
	var took time.Duration
	if reload {
		scenario = "a hot reload with 20 chunks pending and too short a Drain_Timeout"
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
	if reload {
		<-written
	} else {
		r.stop()
		before, requests = r.stored(), r.counted("requests")
		<-written
		// It stores what the first one did already as part of its count.
		r = receive(t, dir, log, r.address())
		p = e.start(t, s)
	}
	until(t, "all events are stored", func() bool { return r.distinct() >= len(lines) })
	until(t, "no chunk is left", func() bool { return s.chunksStored(t) == 0 })
	total := time.Since(begin)
	p.stop()
	v := r.verdict()
	t.Logf("the stop took %v, gave %d events up and left %d chunks with %d of %d events stored; then %+v", took.Round(time.Millisecond), cut, left, before, len(lines), v)
	if real {
		record(t, tableRow{scenario, "blocking", "raw", result{v, requests + r.counted("requests"), total}})
	}
	if left == 0 || before == 0 || before == len(lines) {
		t.Error("the stop was not in the middle")
	}
	if v.in != len(lines) || v.lost != 0 || v.altered != 0 {
		t.Errorf("want %d events, none lost or altered", len(lines))
	}
	// The receiver stores before it takes its time to answer: a request that was cut at
	// the end of Drain_Timeout would come twice.
	if (state || reload) && v.duplicated != 0 {
		t.Errorf("%d duplicates, with Drain_Timeout %s", v.duplicated, timeout)
	}
	if drain != (cut == 0) {
		t.Errorf("%d events were given up with Drain_Timeout %s", cut, timeout)
	}
	if strings.Contains(p.String(), "a state file is not used") {
		t.Error("the state file was not used")
	}
}
