package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file bounds the memory: while the receiver is down, and with chunks and events
// far larger than the plugin's buffer.

// overhead is what the plugin may hold beside the bytes of Batch_Buffer_Bytes: the Go
// runtime, connections, bodies that are not full.
const overhead = 64 << 20

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that the process ever held at once, in bytes.
func (p *process) peak() int {
	p.t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	m := highWater.FindSubmatch(status)
	if m == nil {
		p.t.Fatal("no VmHWM")
	}
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return kb << 10
}

func TestHugeChunksAndEventsArriveInBoundedMemory(t *testing.T) {
	t.Parallel()
	chunk, event, buffer := 120_000_000, 5_000_000, 8_000_000
	if bench { // with the buffer at its default
		chunk, event, buffer = 300_000_000, 20_000_000, 64_000_000
	}
	some := auditLog(t, "metadata")
	for _, tt := range []struct {
		name  string
		chunk int
		bound int // on what the plugin holds; the Go runtime collects when twice as much is held as is in use
		line  func(i int) string
	}{
		{fmt.Sprintf("a chunk of %d MB", chunk/1e6), chunk, 2*buffer + overhead, func(i int) string { return some[i%len(some)] }},
		// Of large events the Go runtime holds more for a while than is in use.
		{fmt.Sprintf("events of %d MB", event/1e6), 2 * chunk, 2*buffer + 20*event + overhead, func(i int) string {
			line := some[i%len(some)]
			return line[:len(line)-1] + `,"requestObject":{"data":"` + strings.Repeat("x", event) + `"}}`
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, records := filepath.Join(dir, "audit.log"), filepath.Join(dir, "records")
			events := writeHuge(t, log, records, tt.chunk, tt.line)
			r := receive(t, dir, log, "")
			p := start(t, flbhost, "--plugin", plugin, "--set", "URL="+r.url, "--set", fmt.Sprintf("Batch_Buffer_Bytes=%d", buffer), "--set", "Flush_Timeout=2s",
				"--workers", "1", "--retry-base", "0.5", "--retry-cap", "1", "--chunk-bytes", "1000000000", "--msgpack", records, "--wait-signal")
			within(t, deadline, time.Second, "all events are stored", func() bool { return r.stored() >= events })
			peak := p.peak()
			p.stop()
			// The host itself has the file, the chunk, and its copy while the chunk
			// moves to another address for a retry.
			bound := 3*(tt.chunk+tt.chunk/30) + tt.bound
			t.Logf("%d events, VmHWM %d MB, want at most %d MB", events, peak/1e6, bound/1e6)
			if peak > bound {
				t.Errorf("VmHWM %d, want at most %d", peak, bound)
			}
			r.wantAll(events)
		})
	}
}

// writeHuge writes lines of at least size bytes as a log and as records.
func writeHuge(t *testing.T, log, records string, size int, line func(i int) string) (events int) {
	t.Helper()
	var out [2]*bufio.Writer
	for i, name := range []string{log, records} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out[i] = bufio.NewWriterSize(f, 1<<20)
	}
	for size > 0 {
		l := strings.Replace(line(events), `"auditID":"`, fmt.Sprintf(`"auditID":"%07d-`, events), 1)
		record := recordsOf([]string{l})
		_, _ = out[0].WriteString(l + "\n")
		_, _ = out[1].Write(record)
		size -= len(record)
		events++
	}
	for _, w := range out {
		if err := w.Flush(); err != nil { // of all writes
			t.Fatal(err)
		}
	}
	return events
}

func TestMemoryIsBoundedWhileTheReceiverIsDown(t *testing.T) {
	t.Parallel()
	onFluentBit(t, func(t *testing.T) {
		outage := time.Minute
		if bench {
			outage = 10 * time.Minute
		}
		const rate, buffer = 2000, 64_000_000
		events := rate * int(outage/time.Second)
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.log")
		auditgen := filepath.Join(dir, "auditgen")
		if out, err := exec.Command("go", "build", "-o", auditgen, "../../cmd/auditgen").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		writer := start(t, auditgen, "-out", log, "-level", "Metadata", "-rate", strconv.Itoa(rate), "-count", strconv.Itoa(events))
		until(t, "the log is there", func() bool { _, err := os.Stat(log); return err == nil })
		r := receive(t, dir, log, "")
		r.stop()
		begin := time.Now()
		with := tailing(t, log, filepath.Join(dir, "with"), "Name k8saudit\n    Workers 1\n    Retry_Limit no_limits\n    URL "+r.url)
		without := tailing(t, log, filepath.Join(dir, "without"), "Name null")
		var peaks [2]int
		for tick := time.NewTicker(time.Second); time.Since(begin) < outage; <-tick.C {
			for i, p := range []*process{with, without} {
				peaks[i] = max(peaks[i], p.footprint().anonKB<<10)
			}
		}
		down := r.stored()
		r = receive(t, dir, log, r.address())
		healed := time.Now()
		if status := writer.wait(); status != 0 {
			t.Fatalf("auditgen ended with %d", status)
		}
		size := func() int64 {
			info, err := os.Stat(r.store.name)
			if err != nil {
				return 0
			}
			return info.Size()
		}
		info, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		within(t, 15*time.Minute, 500*time.Millisecond, "the backlog is delivered", func() bool { return size() >= info.Size() || with.ended() })
		drained := time.Since(healed)
		took := time.Since(begin)
		with.stop()
		without.stop()
		v := r.verdict()
		t.Logf("RssAnon at most %.1f MB, with output null %.1f MB; the backlog of %v took %v; %+v", float64(peaks[0])/1e6, float64(peaks[1])/1e6, outage, drained.Round(time.Second), v)
		record(t, tableRow{fmt.Sprintf("receiver down for %v at %d events/s", outage, rate), "blocking", "raw", result{v, r.counted("requests"), took}})
		if more := peaks[0] - peaks[1]; more > buffer+overhead {
			t.Errorf("RssAnon is %d above that with output null, want at most %d", more, buffer+overhead)
		}
		if down != 0 || v.in != events || v.lost != 0 || v.altered != 0 || v.duplicated != 0 {
			t.Errorf("%d stored while it was down, then %+v, want %d events once", down, v, events)
		}
	})
}

// tailing starts a Fluent Bit as the shipped configuration has it, with this output.
func tailing(t *testing.T, log, dir, output string) *process {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "fluent-bit.conf")
	text := fmt.Sprintf(`[SERVICE]
    Flush 1
    Grace 5
    storage.path %s
    storage.backlog.mem_limit 64M
    scheduler.base 1
    scheduler.cap 30
[INPUT]
    Name tail
    Path %s
    Tag kube.audit
    DB %s
    Read_from_Head On
    Buffer_Chunk_Size 512k
    Buffer_Max_Size 16M
    storage.type filesystem
[OUTPUT]
    Match kube.audit
    %s
`, filepath.Join(dir, "storage"), log, filepath.Join(dir, "tail.db"), output)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, fluentBit, "-q", "-e", plugin, "-c", conf)
}
