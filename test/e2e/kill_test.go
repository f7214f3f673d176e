package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// This file kills Fluent Bit, again and again, in the middle of a load.

// within is until for what takes longer, or costs something to find out.
func within(t *testing.T, limit, every time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(every) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// idsIn are the auditIDs in a file.
func idsIn(t *testing.T, file string, ids map[string]bool) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range auditIDs.FindAllSubmatch(b, -1) {
		ids[string(m[1])] = true
	}
}

// repeatable is how many events of the chunks that a dead Fluent Bit has left are
// stored already: it will send them again.
func repeatable(t *testing.T, s *setup, r *receiver) (n int) {
	t.Helper()
	stored := map[string]bool{}
	idsIn(t, r.store, stored)
	err := filepath.WalkDir(filepath.Join(s.dir, "storage"), func(path string, f os.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() {
			return err
		}
		chunk := map[string]bool{}
		idsIn(t, path, chunk)
		for id := range chunk {
			if stored[id] {
				n++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAKilledFluentBitLosesAtMostTheBufferOfModeBatch(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onFluentBit(t, func(t *testing.T) { killed(t, mode) })
		})
	}
}

func killed(t *testing.T, mode string) {
	if !bench {
		t.Skip("50 kills take two minutes: run make chaos")
	}
	const kills, buffer = 50, 2000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	lines := numbered(copies(auditLog(t, "metadata"), 50))
	s := setup{dir: dir, log: log, workers: 1, keys: "Mode " + mode + "|Batch_Buffer_Size 2000"}
	write := load(t, realFluentBit{}, log, lines, &s, 250, 200*time.Millisecond)
	r := receive(t, dir, log, "", "-delay", "50ms")
	s.url = r.url
	var writer sync.WaitGroup
	writer.Go(write)
	begin := time.Now()
	again := 0
	for i := range kills {
		p := realFluentBit{}.start(t, s)
		time.Sleep(time.Duration(300+chance.IntN(1700)) * time.Millisecond) // any moment
		if p.ended() {
			t.Fatalf("it ended by itself before kill %d", i)
		}
		_ = p.cmd.Process.Kill()
		p.wait()
		time.Sleep(100 * time.Millisecond) // the requests that were under way are stored
		again += repeatable(t, &s, r)
	}
	p := realFluentBit{}.start(t, s)
	writer.Wait()
	last := lines[len(lines)-1]
	within(t, deadline, time.Second, "the last event is stored and no chunk is left", func() bool {
		return s.chunksStored(t) == 0 && r.hasStored(last) && (mode == "batch" || r.distinct() >= len(lines))
	})
	took := time.Since(begin)
	p.stop()
	v := r.verdict()
	t.Logf("%d kills: %+v; %d events of the chunks left at the kills had been stored", kills, v, again)
	record(t, tableRow{"50 times kill -9 of Fluent Bit", mode, "raw", result{v, r.counted("requests"), took}})
	if v.in != len(lines) || v.altered != 0 {
		t.Errorf("want %d events, none altered", len(lines))
	}
	if v.duplicated > again {
		t.Errorf("%d duplicates, want at most the %d events that were stored and not yet answered to Fluent Bit at a kill", v.duplicated, again)
	}
	bound := 0
	if mode == "batch" {
		bound = kills * buffer
		t.Logf("lost %d of at most %d: %d kills of a buffer of %d events", v.lost, bound, kills, buffer)
	}
	if v.lost > bound {
		t.Errorf("lost %d, want at most %d", v.lost, bound)
	}
}

// hasStored says whether the receiver has stored this event.
func (r *receiver) hasStored(line string) bool {
	ids := map[string]bool{}
	idsIn(r.t, r.store, ids)
	return ids[auditIDs.FindStringSubmatch(line)[1]]
}
