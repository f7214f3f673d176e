package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file has events that cannot be delivered, and Dead_Letter_Dir.

func readFile(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestModeBatchStoppedWhileTheReceiverIsDownLosesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e engine) {
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.log")
		lines := auditLog(t, "metadata")
		writeLines(t, log, lines)
		r := receive(t, dir, log, "")
		address := r.address()
		r.stop()
		s := setup{dir: dir, log: log, url: r.url, workers: 1, grace: 1, chunkLines: 200, keys: "Mode batch|Drain_Timeout 1s|Max_Backoff 2s|Dead_Letter_Dir " + filepath.Join(dir, "dead")}
		p := e.start(t, s)
		until(t, "the webhook counts as down", func() bool { return strings.Contains(p.String(), "the webhook is down") })
		p.stop()
		if !strings.Contains(p.String(), "undelivered events are kept in Dead_Letter_Dir") || strings.Contains(p.String(), "is lost") {
			t.Error("the log does not say that events are kept, or says that some are lost")
		}
		kept, _ := filepath.Glob(filepath.Join(dir, "dead", "undelivered-*.log"))
		if len(kept) != 1 {
			t.Fatalf("undelivered events are in %v, want one file", kept)
		}
		t.Logf("kept: %d events", strings.Count(readFile(t, kept[0]), "\n"))
		r = receive(t, dir, log, address)
		p = e.start(t, s)
		until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
		p.stop()
		r.wantAll(len(lines))
		if kept, _ := filepath.Glob(filepath.Join(dir, "dead", "undelivered-*.log")); len(kept) != 0 {
			t.Errorf("%v is still there", kept)
		}
	})
}

func TestWhatIsRefusedForGoodIsInAFileAndItsChunkIsDone(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				lines := copies(auditLog(t, "metadata")[:1000], 2)
				const id = "00-bad00000-"
				bad := 100
				lines[bad] = strings.Replace(lines[bad], `"auditID":"00-`, `"auditID":"`+id, 1)
				r := receive(t, dir, log, "", "-fail-match", id, "-fail-status", "400")
				s := setup{dir: dir, log: log, url: r.url, workers: 1, keys: "Initial_Backoff 50ms|Max_Backoff 100ms|Batch_Max_Wait 50ms|Mode " + mode + "|Dead_Letter_Dir " + filepath.Join(dir, "dead")}
				// Long enough that others are accepted again and again while the one is not.
				write := load(t, e, log, lines, &s, 5, 50*time.Millisecond)
				p := e.start(t, s)
				write()
				until(t, "all others are stored", func() bool { return r.stored() >= len(lines)-1 })
				until(t, "the one is set aside", func() bool {
					b, _ := os.ReadFile(filepath.Join(dir, "dead", "rejected.log"))
					return len(b) > 0
				})
				until(t, "no chunk is left", func() bool { return s.chunksStored(t) == 0 })
				p.stop()
				if got := readFile(t, filepath.Join(dir, "dead", "rejected.log")); got != lines[bad]+"\n" {
					t.Errorf("rejected.log holds %q", got)
				}
				if n := strings.Count(p.String(), "it is set aside and not sent again event="+id); n != 1 {
					t.Errorf("named %d times, want once", n)
				}
				v := r.verdict()
				if v.lost != 1 || v.duplicated != 0 || v.altered != 0 || v.out != len(lines)-1 {
					t.Errorf("%+v, want all but the one", v)
				}
			})
		})
	}
}
