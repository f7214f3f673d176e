package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file stops Fluent Bit while a slow receiver has chunks waiting, and starts it
// again: with State_Dir nothing is sent twice.

func TestARestartRepeatsNothingWithStateDir(t *testing.T) {
	for _, how := range []string{"with State_Dir", "without State_Dir"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) { restarted(t, e, how == "with State_Dir") })
		})
	}
}

func restarted(t *testing.T, e engine, state bool) {
	_, real := e.(realFluentBit)
	if real && !long {
		t.Skip("this takes a minute on Fluent Bit: set E2E_LONG=1")
	}
	const pieces = 30
	delay, interval, waiting, grace := time.Second, 100*time.Millisecond, 12, 1
	keys := "Flush_Timeout 500ms|Drain_Timeout 2s"
	if long {
		delay, interval, waiting, grace = 3*time.Second, 400*time.Millisecond, 20, 5
		keys = "Flush_Timeout 2s|Drain_Timeout 5s"
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := numbered(auditLog(t, "metadata"))[:pieces*40]
	s := setup{dir: dir, log: log, workers: 1, grace: grace, keys: keys}
	name := "SIGTERM with 20 chunks pending, and a start"
	if state {
		s.keys += "|State_Dir " + filepath.Join(dir, "state")
		name += ", with State_Dir"
	}
	write := load(t, e, log, lines, &s, 40, interval)
	r := receive(t, dir, log, "", "-delay", delay.String())
	s.url = r.url
	begin := time.Now()
	p := e.start(t, s)
	written := make(chan struct{})
	go func() { defer close(written); write() }()
	until(t, "chunks wait and some events are stored", func() bool { return s.chunksStored(t) >= waiting && r.stored() > 0 })
	took := p.stop()
	r.stop()
	before, requests := r.stored(), r.counted("requests")
	left := s.chunksStored(t)
	<-written
	// It stores what the first one did already as part of its count.
	r = receive(t, dir, log, r.address())
	p = e.start(t, s)
	until(t, "all events are stored", func() bool { return r.distinct() >= len(lines) })
	until(t, "no chunk is left", func() bool { return s.chunksStored(t) == 0 })
	total := time.Since(begin)
	p.stop()
	v := r.verdict()
	t.Logf("the stop took %v and left %d chunks with %d of %d events stored; then %+v", took.Round(time.Millisecond), left, before, len(lines), v)
	if real {
		record(t, tableRow{name, "blocking", "raw", result{v, requests + r.counted("requests"), total}})
	}
	if left == 0 || before == 0 || before == len(lines) {
		t.Error("the stop was not in the middle")
	}
	if v.in != len(lines) || v.lost != 0 || v.altered != 0 || state && v.duplicated != 0 {
		t.Errorf("want %d events, none lost or altered, and with State_Dir none duplicated", len(lines))
	}
	if strings.Contains(p.String(), "a state file is not used") {
		t.Error("the state file was not used")
	}
}
