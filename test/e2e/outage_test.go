package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file takes the receiver away in the middle of a load, and stops the host.

// outage is how long the receiver is away.
func outage() time.Duration {
	if long {
		return 30 * time.Second
	}
	return 4 * time.Second
}

var firstNumber = regexp.MustCompile(`\d+\.\d+`)

// gaps are the times between two lines of the second output, in seconds.
func gaps(t *testing.T, file string) (all []float64) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for line := range strings.Lines(string(b)) {
		at, err := strconv.ParseFloat(firstNumber.FindString(line), 64)
		if err != nil {
			continue // a line that was cut by the end
		}
		if last > 0 {
			all = append(all, at-last)
		}
		last = at
	}
	if len(all) < 10 {
		t.Errorf("only %d lines from the second output", len(all)+1)
	}
	return all
}

// wantNoStall asserts that the engine was never held up: no gap above 2 s; with
// Workers 0 none above the second that a flush may take there and the flush
// interval, more than once.
func wantNoStall(t *testing.T, workers int, file string) {
	t.Helper()
	longest, over := 0.0, 0
	for _, gap := range gaps(t, file) {
		longest = max(longest, gap)
		if gap > 1.3 {
			over++
		}
	}
	t.Logf("longest gap of the second output: %.2f s", longest)
	if longest > 2 || workers == 0 && over > 1 {
		t.Errorf("the engine was held up: longest gap %.2f s, %d above 1.3 s", longest, over)
	}
}

func TestAnOutageLosesAndRepeatsNothingAndStallsNobody(t *testing.T) {
	for _, how := range []string{"answers 503", "does not listen", "does not answer"} {
		for _, mode := range []string{"blocking", "batch"} {
			for _, workers := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s/%s/workers %d", how, mode, workers), func(t *testing.T) {
					t.Parallel()
					onEach(t, func(t *testing.T, e engine) { away(t, e, how, mode, workers) })
				})
			}
		}
	}
}

func away(t *testing.T, e engine, how, mode string, workers int) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := auditLog(t, "metadata")
	s := setup{dir: dir, log: log, workers: workers, keys: "Mode " + mode + "|Initial_Backoff 200ms|Max_Backoff 2s|Request_Timeout 3s"}
	// The load lasts a second longer than the outage before and after it.
	const chunks = 60
	write := load(t, e, log, lines, &s, (len(lines)+chunks-1)/chunks, (outage()+2*time.Second)/chunks)

	var failing []string
	counted := "" // as the receiver prints it
	switch how {
	case "answers 503":
		failing, counted = []string{"-fail-status", "503"}, "503="
	case "does not answer":
		failing, counted = []string{"-fail-status", "hang"}, "hang="
	}
	if failing != nil {
		failing = append(failing, "-fail-from", "1s", "-fail-for", outage().String())
	}
	r := receive(t, dir, log, "", failing...)
	s.url = r.url
	p := e.start(t, s)
	var writer sync.WaitGroup
	writer.Go(write)
	if how == "does not listen" {
		until(t, "some events are stored", func() bool { return r.stored() > len(lines)/20 })
		address := r.address()
		r.stop()
		time.Sleep(outage()) // this is the outage itself, nothing is waited for
		r = receive(t, dir, log, address)
	}
	writer.Wait()
	until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
	p.stop()
	r.wantAll(len(lines))
	wantNoStall(t, workers, s.gapFile())
	if !strings.Contains(r.String(), counted) {
		t.Error("there was no outage")
	}
}

func TestAReceiverThatNeverAnswersCannotHoldTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.log")
		lines := auditLog(t, "metadata")[:1000]
		const pieces, waiting = 25, 20 // Fluent Bit may make one chunk of two pieces
		s := setup{dir: dir, log: log, workers: 1, grace: 3, keys: "Flush_Timeout 2s|Drain_Timeout 3s"}
		write := load(t, e, log, lines, &s, len(lines)/pieces, 250*time.Millisecond)
		r := receive(t, dir, log, "", "-fail-status", "hang")
		s.url = r.url
		p := e.start(t, s)
		write()
		until(t, "the webhook is known to be slow", func() bool { return strings.Contains(p.String(), "the webhook is slow") })
		until(t, "20 chunks wait", func() bool { return s.chunksStored(t) >= waiting })
		took := p.stop()
		const bound = (3 + 2 + 3 + 2) * time.Second
		t.Logf("the end took %v", took)
		if took > bound {
			t.Errorf("the end took %v, want at most Grace + Flush_Timeout + Drain_Timeout + 2s = %v", took, bound)
		}
		r.cmd.Process.Kill()
		r.wait()
		if n := r.stored(); n != 0 {
			t.Fatalf("%d events stored: the receiver was to answer nothing", n)
		}
		again := receive(t, dir, log, r.address())
		p = e.start(t, s)
		until(t, "all events are stored", func() bool { return again.stored() >= len(lines) })
		p.stop()
		again.wantAll(len(lines))
	})
}

func TestStopsInTheMiddleOfALoadLoseAndRepeatNothing(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) { stops(t, e, mode) })
		})
	}
}

func stops(t *testing.T, e engine, mode string) {
	times := 4
	if long {
		times = 20
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := auditLog(t, "metadata")
	s := setup{dir: dir, log: log, workers: 1, keys: "Mode " + mode + "|State_Dir " + filepath.Join(dir, "state")}
	const chunks = 100
	write := load(t, e, log, lines, &s, (len(lines)+chunks-1)/chunks, time.Duration(times)*time.Second/chunks)
	r := receive(t, dir, log, "", "-delay", "20ms")
	s.url = r.url
	var writer sync.WaitGroup
	writer.Go(write)
	for i := range times {
		before := r.stored()
		p := e.start(t, s)
		until(t, "the load goes on", func() bool { return r.stored() > before+len(lines)/(2*times) || r.stored() >= len(lines) })
		time.Sleep(time.Duration(i*37%100) * time.Millisecond) // stop at different points of a chunk
		p.stop()
	}
	p := e.start(t, s)
	writer.Wait()
	until(t, "all events are stored", func() bool { return r.distinct() >= len(lines) })
	p.stop()
	v := r.verdict()
	t.Logf("%d stops: events in %d, events out %d, lost %d, duplicated %d, altered %d", times, v.in, v.out, v.lost, v.duplicated, v.altered)
	if v.in != len(lines) || v.lost != 0 || v.duplicated != 0 || v.altered != 0 {
		t.Errorf("want none of %d lost, duplicated or altered", len(lines))
	}
}
