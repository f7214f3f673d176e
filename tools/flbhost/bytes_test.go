// Tests of what the plugin is given: bytes, memory, stack, retries, and what a stop or kill leaves.
package flbhost

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestRetriesSendTheSameBytes(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--set", "answers=retry,ok,retry,retry,ok",
		"--retry-base", "0.01", "--chunk-records", "2", "--log", logFile(t, 0, 4))
	h.mustEnd()
	h.wantCounts("chunks 2 ok 2 retries 3 errors 0 left 0 flushes 5")
	if c := slices.Compact(slices.Sorted(slices.Values(h.chunks()))); len(c) != 2 {
		t.Errorf("the plugin saw %d different chunks, want 2: %q", len(c), c)
	}
}

func TestDroppedRetriesAndErrorsNeverComeBack(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "answers=retry,error,wrong,ok", "--drop-retries",
		"--chunk-records", "1", "--log", logFile(t, 0, 4))
	h.mustEnd()
	h.wantCounts("chunks 4 ok 1 retries 1 errors 2 left 0 flushes 4")
}

func TestUniqueChunksDiffer(t *testing.T) {
	for _, tt := range []struct {
		extra []string
		want  int
	}{{nil, 1}, {[]string{"--unique"}, 20}} {
		raw := writeFile(t, "raw.msgpack", "\x92\x01\x80")
		h := start(t, hostPath, synchronous,
			slices.Concat([]string{"--repeat", "20", "--msgpack", raw}, tt.extra)...)
		h.mustEnd()
		h.wantCounts("chunks 20 ok 20 retries 0 errors 0 left 0 flushes 20")
		if c := slices.Compact(slices.Sorted(slices.Values(h.chunks()))); len(c) != tt.want {
			t.Errorf("%q: %d different chunks, want %d", tt.extra, len(c), tt.want)
		}
	}
}

// An event that is read twice is the same event to the plugin, unless it is numbered.
func TestDistinctEventsHaveAuditIDsOfTheirOwn(t *testing.T) {
	const line = `{"note":"auditID","auditID":"11111111-2222","stage":"Panic"}`
	for _, tt := range []struct {
		name, option, text string
		want               []string
	}{
		{"lines", "--log", line + "\n" + `{"auditID":"short"}` + "\n" + `{"auditID":1}` + "\n", []string{
			`{"note":"auditID","auditID":"0000abcd-2222","stage":"Panic"}`, `{"auditID":"0abce"}`, `{"auditID":1}`,
			`{"note":"auditID","auditID":"0000abcf-2222","stage":"Panic"}`, `{"auditID":"0abd0"}`, `{"auditID":1}`}},
		{"records", "--msgpack", "\x92\x00\x81\xa7auditID\xababcdefgh-xy" + "\x92\x00\x81\xa7auditID\xd9\x0babcdefgh-xy" + "\x92\x00\x81\xa7auditID\xa0", []string{
			"\xab0000abcd-xy", "\xd9\x0b0000abce-xy", "\xa7auditID\xa0", "\xab0000abcf-xy", "\xd9\x0b0000abd0-xy", "\xa7auditID\xa0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "storage")
			h := start(t, hostPath, synchronous, "--set", "answers=retry", "--storage", dir, "--chunk-records", "1",
				"--distinct", "43981", "--repeat", "2", tt.option, writeFile(t, "events", tt.text), "--grace", "0")
			for range tt.want {
				h.until("answer")
			}
			h.signal(syscall.SIGTERM)
			h.mustEnd()
			left := leftChunks(t, dir)
			for i, want := range tt.want {
				if got := left["0000000000000000000"+string(rune('1'+i))+".chunk"]; !strings.HasSuffix(got, want) {
					t.Errorf("chunk %d ends with %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// A plugin that keeps a pointer, reads past the end, or needs more stack than Fluent Bit gives must not
// get away with it here.
func TestMisuseFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		dies bool
	}{
		{"stale pointer", []string{"--set", "misuse=stale", "--set", "answers=retry,ok"}, true},
		{"one byte too many", []string{"--set", "misuse=overread"}, true},
		{"too much stack", []string{"--set", "stack_use=80000"}, true},
		{"more stack given", []string{"--set", "stack_use=80000", "--stack", "131072"}, false},
		{"enough stack", []string{"--set", "stack_use=40000"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t, hostPath, synchronous, slices.Concat(tt.args,
				[]string{"--retry-base", "0.01", "--log", logFile(t, 0, 2)})...)
			h.end()
			status := h.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if dies := status.Signaled() && status.Signal() == syscall.SIGSEGV; dies != tt.dies {
				t.Errorf("died of SIGSEGV: %v, want %v\n%s", dies, tt.dies, h.stderr.String())
			}
		})
	}
}

func TestLogLinesBecomeTailRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "storage")
	long := strings.Repeat("x", 300)
	log := writeFile(t, "audit.log", "ab\r\n\n"+long+"\nunfinished")
	h := start(t, hostPath, synchronous, "--set", "answers=retry", "--storage", dir, "--log", log, "--grace", "0")
	h.until("answer")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	// Times are cut out; the rest is as in_tail packs it.
	const head = "\x92\x92\xd7\x00TTTTTTTT\xdf\x00\x00\x00\x00\xdf\x00\x00\x00\x01\xa3log"
	got := []byte(leftChunks(t, dir)["00000000000000000001.chunk"])
	got, ok := bytes.CutPrefix(got, []byte("kube.audit"))
	if !ok {
		t.Fatalf("no tag in %q", got)
	}
	second := len(head) + 3
	for _, at := range []int{4, second + 4} {
		copy(got[at:], "TTTTTTTT")
	}
	if want := head + "\xa2ab" + head + "\xda\x01\x2c" + long; string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMsgpackIsCutAtRecordsAndHostileBytesGoAsOnePiece(t *testing.T) {
	records := []string{
		"\x92\xd7\x00\x00\x00\x00\x01\x00\x00\x00\x00\x81\xa1a\xc4\x02\x00\x01",
		"\x92\x92\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x80\x81\xa1b\xd9\x01z",
		"\xc7\x01\x05\xff", "\xdc\x00\x02\x01\xd1\xff\x00", "\xde\x00\x01\xc0\xc3", "\xd8" + strings.Repeat("q", 17),
		"\xdf\xff\xff\xff\xff\x01", // promises more than there is
	}
	dir := filepath.Join(t.TempDir(), "storage")
	h := start(t, hostPath, synchronous, "--set", "answers=retry", "--storage", dir, "--chunk-records", "1",
		"--msgpack", writeFile(t, "raw.msgpack", strings.Join(records, "")), "--grace", "0")
	for range records {
		h.until("answer")
	}
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	left := leftChunks(t, dir)
	for i, want := range records {
		name := "0000000000000000000" + string(rune('1'+i)) + ".chunk"
		if got := strings.TrimPrefix(left[name], "kube.audit"); got != want {
			t.Errorf("chunk %d: got %q, want %q", i+1, got, want)
		}
	}
}

func TestStoppedHostNeitherLosesNorRepeats(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			dir := t.TempDir()
			storage, position := filepath.Join(dir, "storage"), filepath.Join(dir, "position")
			log := logFile(t, 0, 6)
			args := []string{"--storage", storage, "--position", position, "--chunk-records", "2",
				"--queue", "2", "--log", log, "--grace", "0.05", "--retry-base", "0.01"}

			// The first chunk arrives, the second does not, the third is never read.
			h := start(t, hostPath, synchronous, slices.Concat(args, []string{"--set", "answers=ok,retry",
				"--interval", "100"})...)
			h.until("answer - 1 2")
			h.signal(sig)
			h.end()
			before := h.chunks()

			f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(logLines(6, 2)); err != nil {
				t.Fatal(err)
			}
			f.Close()

			h = start(t, hostPath, synchronous, args...)
			h.mustEnd()
			h.wantCounts("chunks 3 ok 3 retries 0 errors 0 left 0 flushes 3")
			after := h.chunks()
			if after[0] != before[1] {
				t.Errorf("the left chunk came as %q, want %q", after[0], before[1])
			}
			if left := leftChunks(t, storage); len(left) != 0 {
				t.Errorf("storage still holds %q", left)
			}

			h = start(t, hostPath, synchronous, args...)
			h.mustEnd()
			h.wantCounts("chunks 0 ok 0 retries 0 errors 0 left 0 flushes 0")
		})
	}
}

// The position is written after the chunk: killed in between, the chunk's own mark counts.
func TestChunkInStorageCountsAsRead(t *testing.T) {
	dir := t.TempDir()
	storage, position := filepath.Join(dir, "storage"), filepath.Join(dir, "position")
	args := []string{"--storage", storage, "--position", position, "--log", logFile(t, 0, 2), "--grace", "0"}
	h := start(t, hostPath, synchronous, slices.Concat(args, []string{"--set", "answers=retry"})...)
	h.until("answer")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	if err := os.Remove(position); err != nil {
		t.Fatal(err)
	}
	h = start(t, hostPath, synchronous, args...)
	h.mustEnd()
	h.wantCounts("chunks 1 ok 1 retries 0 errors 0 left 0 flushes 1")
}

// As in Fluent Bit: a worker runs its whole queue before it is joined, and nobody reads the answers.
func TestAnswersAfterGraceAreIgnored(t *testing.T) {
	storage := filepath.Join(t.TempDir(), "storage")
	h := start(t, hostPath, "0", "--set", "id=a", "--set", "delay_ms=500", "--workers", "1", "--grace", "0.1",
		"--output", "--set", "id=b", // quick, so it tells when all three were read
		"--storage", storage, "--chunk-records", "1", "--log", logFile(t, 0, 3))
	h.until("answer b 2")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	h.wantCounts("chunks 3 ok 3 retries 0 errors 0 left 3 flushes 6")
	if n := len(leftChunks(t, storage)); n != 3 {
		t.Errorf("%d chunks in storage, want 3", n)
	}
}

func TestSynchronousPluginStopsAfterTheFlushInFlight(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--set", "delay_ms=500", "--workers", "1",
		"--output", "--set", "id=b", "--grace", "0.1", "--chunk-records", "1", "--log", logFile(t, 0, 3))
	h.until("answer b 2")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	h.wantCounts("chunks 3 ok 3 retries 0 errors 0 left 3 flushes 4")
}

func TestPendingRetriesAreTriedAtOnceWhenStopping(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--set", "answers=retry,ok", "--retry-base", "3600",
		"--retry-cap", "7200", "--log", logFile(t, 0, 1))
	h.until("answer")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	h.wantCounts("chunks 1 ok 1 retries 1 errors 0 left 0 flushes 2")
}

func TestReportsGapLatencyAndMemory(t *testing.T) {
	dir := t.TempDir()
	gap, latency := filepath.Join(dir, "gap"), filepath.Join(dir, "latency")
	h := start(t, hostPath, synchronous, "--set", "delay_ms=300", "--gap-output", gap, "--gap-interval", "10",
		"--latency", latency, "--rss", "--log", logFile(t, 0, 1))
	h.mustEnd()
	// Workers 0: the flush holds the engine up.
	if ms := h.count("gap_ms"); ms < 300 || ms > 3000 {
		t.Errorf("gap_ms %d, want about 300", ms)
	}
	if ms := h.count("max_flush_ms"); ms < 300 || ms > 3000 {
		t.Errorf("max_flush_ms %d, want about 300", ms)
	}
	b, err := os.ReadFile(latency)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^\d{6,7}\n$`).Match(b) {
		t.Errorf("latency file %q, want one line of about 300000", b)
	}
	if n := strings.Count(h.stderr.String(), "flbhost: rss chunks "); n != 2 {
		t.Errorf("%d rss lines, want 2:\n%s", n, h.stderr.String())
	}
}
