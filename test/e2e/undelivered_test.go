package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file has mode batch with a receiver that is down over many restarts: what could not
// be delivered is kept in Dead_Letter_Dir, more of it each time.

func TestManyUndeliveredEventsHoldUpNoStopAndArriveOnce(t *testing.T) {
	t.Parallel()
	const drain = 2 * time.Second
	restarts, size := 3, 5_000_000 // bytes of all events
	if long {
		restarts, size = 10, 50_000_000
	}
	if bench {
		restarts, size = 10, 500_000_000
	}
	for name, args := range map[string][]string{"does not answer": {"-fail-status", "hang"}, "does not listen": nil} {
		t.Run("the receiver "+name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log := newRotatedLog(t, dir)
			each := size / restarts * len(log.lines) / len(strings.Join(log.lines, ""))
			r := receive(t, dir, log.name, "", args...)
			address := r.address()
			if args == nil {
				r.stop()
			}
			s := setup{dir: dir, log: log.name, url: r.url, workers: 1, grace: 1, chunkLines: 2000,
				keys: fmt.Sprintf("Mode batch|Drain_Timeout %v|Flush_Timeout 1s|Batch_Buffer_Size %d|Batch_Buffer_Bytes %d|Dead_Letter_Dir %s|State_Dir %s",
					drain, 10*restarts*each, 4*size, filepath.Join(dir, "dead"), filepath.Join(dir, "state"))}
			var took []time.Duration
			var kept []int64 // bytes
			for range restarts {
				log.write(each)
				p := bundledHost{}.start(t, s)
				// While the webhook counts as down the chunks stay where they are, and the host
				// reads no more than some.
				most := time.Now().Add(4 * time.Second)
				until(t, "the events are taken", func() bool {
					return s.hasRead(t) && s.chunksStored(t) == 0 || args == nil && time.Now().After(most) || p.ended()
				})
				bound := drain + time.Second
				if s.chunksStored(t) > 0 {
					bound += time.Duration(s.grace) * time.Second
				}
				ended := p.stop()
				took, kept = append(took, ended.Round(time.Millisecond)), append(kept, undelivered(t, dir))
				if ended > bound {
					t.Errorf("the end took %v with %d MB undelivered, want at most %v", ended, kept[len(kept)-1]/1e6, bound)
				}
				if strings.Contains(p.String(), "is lost") {
					t.Error("the log says that events are lost")
				}
			}
			t.Logf("the ends took %v", took)
			t.Logf("undelivered after each, in bytes: %v", kept)
			if last := kept[len(kept)-1]; args != nil && last < int64(size)*9/10 {
				t.Errorf("%d bytes are undelivered, want nearly all of %d", last, size)
			}
			if args != nil {
				_ = r.cmd.Process.Kill() // or it would wait for the requests that hang
				r.wait()
			}
			r = receive(t, dir, log.name, address)
			p := bundledHost{}.start(t, s)
			within(t, deadline, 500*time.Millisecond, "all events are stored, and nothing is left", func() bool {
				return p.ended() || r.distinct() >= log.events() && s.chunksStored(t) == 0 && undelivered(t, dir) == 0
			})
			p.stop()
			r.wantAll(log.events())
		})
	}
}

// undelivered is how many bytes the files of undelivered events have.
func undelivered(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "dead", "undelivered-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil { // or it is gone in this moment
			bytes += info.Size()
		}
	}
	return bytes
}
