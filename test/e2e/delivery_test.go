package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// This file shows that every event arrives exactly once, whatever the mode, the
// threads and the form of the records.

func TestEveryEventArrivesExactlyOnce(t *testing.T) {
	for _, level := range []string{"requestresponse", "metadata"} {
		for _, mode := range []string{"blocking", "batch"} {
			for _, workers := range []int{0, 1, 4} {
				t.Run(fmt.Sprintf("%s/%s/workers %d", level, mode, workers), func(t *testing.T) {
					lines := auditLog(t, level)
					raw := setup{workers: workers, keys: "Mode " + mode}
					// Of raw lines each item must be the line, byte for byte.
					onEach(t, func(t *testing.T, e engine) { ship(t, e, lines, raw) })
					// The parser takes stageTimestamp out as its time key: each event must
					// be equal to its line.
					parsed := raw
					parsed.timeFormat = parserTime
					onFluentBit(t, func(t *testing.T) { ship(t, realFluentBit{}, lines, parsed, "-semantic") })
				})
			}
		}
	}
}

// ship delivers a log through a pipeline and asserts that every event arrived
// exactly once. It returns the engine, which has ended.
func ship(t *testing.T, e engine, lines []string, s setup, receiverArgs ...string) *process {
	t.Helper()
	s.dir = t.TempDir()
	s.log = filepath.Join(s.dir, "audit.log")
	writeLines(t, s.log, lines)
	r := receive(t, s.dir, s.log, "", receiverArgs...)
	s.url = r.url
	p := e.start(t, s)
	until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
	p.stop()
	r.wantAll(len(lines))
	return p
}

func TestNoTimestampIsInventedWhenTheParsersTimeFormatIsWrong(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		for _, format := range []string{"%Y-%m-%dT%H:%M:%S", "%s"} {
			t.Run(format, func(t *testing.T) {
				s := setup{workers: 1, timeFormat: format}
				p := ship(t, realFluentBit{}, auditLog(t, "metadata"), s, "-semantic", "-absent", "stageTimestamp")
				if !strings.Contains(p.String(), "set Time_Keep On") {
					t.Error("the log does not say what to do about it")
				}
			})
		}
	})
}

func TestAnEventWhoseTimeTheParserCannotReadArrivesWhole(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		ship(t, realFluentBit{}, auditLog(t, "metadata"), setup{workers: 1, timeFormat: "%d/%b/%Y"}, "-semantic")
	})
}

// recorded are chunks that a Fluent Bit made, with the log lines they hold.
func recorded(name string) string { return filepath.Join("../../plugin/record/testdata", name) }

func TestRecordedChunksArriveExactlyOnce(t *testing.T) {
	for _, name := range []string{"tail-raw.msgpack.gz", "tail-parsed.msgpack.gz"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log, chunks := filepath.Join(dir, "audit.log"), filepath.Join(dir, "chunks")
			lines := gunzipLines(t, recorded("audit.log.gz"))
			writeLines(t, log, lines)
			if err := os.WriteFile(chunks, gunzip(t, recorded(name)), 0o644); err != nil {
				t.Fatal(err)
			}
			r := receive(t, dir, log, "", "-semantic")
			p := start(t, flbhost, "--plugin", plugin, "--set", "URL="+r.url, "--workers", "1", "--msgpack", chunks)
			if status := p.wait(); status != 0 {
				t.Errorf("the host ended with %d", status)
			}
			r.wantAll(len(lines))
		})
	}
}

// Two chunks may have the same bytes, in flight at once or one after the other: their
// events are the same, and arrive once.
func TestTheEventsOfIdenticalChunksArriveOnce(t *testing.T) {
	for _, how := range []string{"one after the other", "at once"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "audit.log")
			lines := auditLog(t, "requestresponse")
			writeLines(t, log, lines)
			r := receive(t, dir, log, "", "-delay", "300ms")
			args := []string{"--plugin", plugin, "--set", "URL=" + r.url, "--set", "Flush_Timeout=100ms", "--retry-base", "0.1", "--workers", "1"}
			if how == "at once" {
				args = append(args[:len(args)-1], "4", "--ignore-synchronous")
			}
			// The host stamps records with the time, so the chunks come from a file
			// of records.
			records := filepath.Join(dir, "records")
			if err := os.WriteFile(records, recordsOf(lines), 0o644); err != nil {
				t.Fatal(err)
			}
			p := start(t, flbhost, append(args, "--chunk-bytes", "1000000000", "--repeat", "2", "--msgpack", records)...)
			if status := p.wait(); status != 0 {
				t.Errorf("the host ended with %d", status)
			}
			if !strings.Contains(p.String(), "flbhost: chunks 2 ok 2 ") || strings.Contains(p.String(), " retries 0 ") {
				t.Error("want two chunks, done after at least one retry")
			}
			r.wantAll(len(lines))
		})
	}
}

func TestTheEventsOfIdenticalChunksOfTwoInputsArriveOnce(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		dir := t.TempDir()
		log, twin := filepath.Join(dir, "audit.log"), filepath.Join(dir, "twin.log")
		// Few enough for one read, and so for one chunk each. The parser gives the
		// records the events' own times, the same in both.
		lines := auditLog(t, "metadata")[:200]
		writeLines(t, log, lines)
		writeLines(t, twin, lines)
		r := receive(t, dir, log, "", "-semantic", "-delay", "2s")
		s := setup{dir: dir, inputs: []input{{path: log}, {path: twin}}, url: r.url, workers: 4, keys: "Flush_Timeout 200ms", timeFormat: parserTime}
		p := realFluentBit{}.start(t, s)
		until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
		until(t, "no chunk is left", func() bool { return s.chunksStored(t) == 0 })
		p.stop()
		if n := suppressed(p.String()); n < len(lines) {
			t.Errorf("the log says that %d events came again, want %d", n, len(lines))
		}
		r.wantAll(len(lines))
	})
}

// recordsOf makes the records that in_tail makes of lines, all at the same time.
func recordsOf(lines []string) (b []byte) {
	for _, line := range lines {
		b = append(b, 0x92, 0x92, 0xd7, 0x00, 0x68, 0xe7, 0x78, 0x00, 0, 0, 0, 1, 0x80, 0x81, 0xa3, 'l', 'o', 'g')
		b = append(b, 0xdb, byte(len(line)>>24), byte(len(line)>>16), byte(len(line)>>8), byte(len(line)))
		b = append(b, line...)
	}
	return b
}

func TestAHostWithoutTheCtxCallsDelivers(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := auditLog(t, "metadata")
	writeLines(t, log, lines)
	r := receive(t, dir, log, "")
	p := start(t, flbhost, "--plugin", plugin, "--hide-ctx", "--set", "URL="+r.url, "--workers", "1", "--log", log)
	if status := p.wait(); status != 0 {
		t.Errorf("the host ended with %d", status)
	}
	if !strings.Contains(p.String(), "stopped drained=0") {
		t.Error("the plugin was not stopped")
	}
	r.wantAll(len(lines))
}

func TestAWrongKeyStopsTheStartAndIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.log")
		writeLines(t, log, auditLog(t, "metadata"))
		p := e.start(t, setup{dir: dir, log: log, url: "http://127.0.0.1:1/", workers: 1, keys: "Batch_Max_Size many|Mode fast"})
		if status := p.wait(); status == 0 {
			t.Error("it started")
		}
		for _, want := range []string{`Batch_Max_Size "many"`, `Mode "fast"`, "write blocking or batch"} {
			if !strings.Contains(p.String(), want) {
				t.Errorf("the log does not say %s", want)
			}
		}
	})
}

func TestAFailedInstanceEndsTheOthers(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	writeLines(t, log, auditLog(t, "metadata"))
	p := start(t, flbhost, "--plugin", plugin, "--output", "--set", "URL=http://127.0.0.1:1/", "--output", "--set", "URL=ftp://x/", "--log", log)
	if status := p.wait(); status != 1 {
		t.Errorf("the host ended with %d, want 1", status)
	}
	if n := strings.Count(p.String(), "stopped drained=0"); n != 1 {
		t.Errorf("%d instances were stopped, want the first one", n)
	}
	if !strings.Contains(p.String(), `URL: scheme "ftp" is not supported`) {
		t.Error("the log does not name the fault")
	}
}

func TestReloadInOneProcess(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := auditLog(t, "metadata")
	writeLines(t, log, lines)
	r := receive(t, dir, log, "")
	p := start(t, flbhost, "--plugin", plugin, "--set", "URL="+r.url, "--workers", "1", "--chunk-records", "50", "--reload-after", "7", "--log", log)
	if status := p.wait(); status != 0 {
		t.Errorf("the host ended with %d", status)
	}
	if starts, stops := strings.Count(p.String(), "started, version"), strings.Count(p.String(), "stopped drained=0"); starts != 2 || stops != 2 {
		t.Errorf("%d starts and %d stops, want 2 and 2", starts, stops)
	}
	r.wantAll(len(lines))
}

var forkedPID = regexp.MustCompile(`daemon pid (\S+)`)

// waitForFork waits until a forked process, which is not a child of the test, has
// ended, and ends it itself if it hangs.
func waitForFork(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("the host does not say what the forked process is: %v", err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}()
	until(t, "the forked process has ended", func() bool {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		ended = err != nil || strings.Contains(string(b), ") Z ")
		return ended
	})
}

func TestInAForkedProcessItDoesNotStartAndWritesNothing(t *testing.T) {
	t.Run("bundled host", func(t *testing.T) {
		dir := t.TempDir()
		log, status := filepath.Join(dir, "audit.log"), filepath.Join(dir, "status")
		writeLines(t, log, auditLog(t, "metadata"))
		p := start(t, flbhost, "--plugin", plugin, "--set", "URL=http://127.0.0.1:1/", "--daemon", "--status-file", status, "--log", log)
		if status := p.wait(); status != 0 {
			t.Errorf("the host ended with %d before it forked", status)
		}
		read := func() string {
			b, _ := os.ReadFile(status)
			return string(b)
		}
		until(t, "the host has forked", func() bool { return strings.Contains(read(), "\n") })
		waitForFork(t, forkedPID.FindStringSubmatch(read() + "daemon pid ?")[1])
		report := read()
		for _, want := range []string{"daemon init 0", "fd1_bytes 0 fd2_bytes 0", "daemon exit 1"} {
			if !strings.Contains(report, want) {
				t.Errorf("the host does not report %q:\n%s", want, report)
			}
		}
	})
	onFluentBit(t, func(t *testing.T) {
		dir := t.TempDir()
		conf := filepath.Join(dir, "fluent-bit.conf")
		if err := os.WriteFile(conf, []byte("[INPUT]\n    Name dummy\n[OUTPUT]\n    Name k8saudit\n    Match *\n    URL http://127.0.0.1:1/\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		p := start(t, fluentBit, "-d", "-e", plugin, "-c", conf)
		p.wait()
		_, pid, ok := strings.Cut(p.String(), "background mode (PID=")
		if !ok {
			t.Fatal("it did not fork")
		}
		pid, _, _ = strings.Cut(pid, ")")
		waitForFork(t, pid)
		if strings.Contains(p.String(), "k8saudit]") || strings.Contains(p.String(), "started, version") {
			t.Error("it wrote something")
		}
	})
}
