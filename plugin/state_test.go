package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// restart ends the process of in and starts another one with an instance that
// sends to r.
func restart(t *testing.T, in *Instance, r *receiver, keys ...string) (*Instance, *logBuffer) {
	t.Helper()
	stop(in)
	return started(t, r, keys...)
}

func TestAfterARestartOnlyWhatWasNotAcceptedIsSent(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				// In mode blocking every second request is refused, and with it every second
				// batch of five. In mode batch what is in the buffer at the end is lost, so
				// nothing is refused there, and the buffer is too small for the chunk.
				r := &receiver{answer: func(_ context.Context, n int, _ []string) error {
					if n%2 == 0 {
						return errors.New("connection refused")
					}
					return nil
				}}
				buffer := "100"
				if mode == "batch" {
					r.now(sleeping(300 * time.Millisecond))
					buffer = "10"
				}
				keys := []string{"Mode", mode, "State_Dir", dir, "Batch_Max_Size", "5", "Batch_Buffer_Size", buffer,
					"Max_Concurrent_Requests", "1", "Flush_Timeout", "1s", "Initial_Backoff", "1m", "Max_Backoff", "1m", "Drain_Timeout", "1s"}
				in, _ := started(t, r, keys...)
				half := chunk(eventRange(0, 48)...)
				if answer := flush(in, half); answer != Retry {
					t.Fatalf("answer %d, want RETRY", answer)
				}
				stop(in)
				if n := r.accepted(); n == 0 || n == 48 {
					t.Fatalf("%d of the 48 events accepted, want some", n)
				}
				r.now(nil)
				in, log := started(t, r, keys...)
				if files := in.stateFiles(); len(files) != 0 {
					t.Errorf("%v is still there, want it to be used once", files)
				}
				for flush(in, half) != OK {
					time.Sleep(time.Second)
				}
				stop(in)
				r.wantGot(t, eventRange(0, 48)...)
				if n := log.count("state file"); n != 0 {
					t.Errorf("the log speaks of the state file:\n%s", log)
				}
			})
		})
	}
}

func TestAfterARestartADeliveredChunkIsNotSentAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(5 * time.Second)}
		keys := []string{"State_Dir", dir}
		in, _ := started(t, r, keys...)
		late := chunk(eventRange(0, 5)...) // answered RETRY, then accepted in the drain time
		if answer := flush(in, late); answer != Retry {
			t.Fatalf("answer %d, want RETRY", answer)
		}
		r.now(nil)
		time.Sleep(5 * time.Second)
		unread := chunk(eventRange(5, 10)...) // answered OK, which Fluent Bit does not read any more
		if answer := flush(in, unread); answer != OK {
			t.Fatalf("answer %d, want OK", answer)
		}
		in, _ = restart(t, in, r, keys...)
		for _, c := range [][]byte{late, unread} {
			if answer := flush(in, c); answer != OK {
				t.Errorf("answer %d, want OK", answer)
			}
		}
		r.wantGot(t, eventRange(0, 10)...)
		// Each is used once, and the next process knows nothing of them but the last.
		in, _ = restart(t, in, r, keys...)
		for _, c := range [][]byte{unread, late, unread} {
			if answer := flush(in, c); answer != OK {
				t.Errorf("answer %d, want OK", answer)
			}
		}
		stop(in)
		r.wantGot(t, append(eventRange(0, 10), append(eventRange(0, 5), eventRange(5, 10)...)...)...)
	})
}

func TestAHalfDeliveredChunkSurvivesSeveralRestarts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		// Each process delivers a batch of three, and no more.
		left := 1
		r := &receiver{answer: func(context.Context, int, []string) error {
			if left == 0 {
				return errors.New("connection refused")
			}
			left--
			return nil
		}}
		keys := []string{"State_Dir", dir, "Batch_Max_Size", "3", "Max_Concurrent_Requests", "1", "Initial_Backoff", "10m", "Max_Backoff", "10m", "Drain_Timeout", "0"}
		in, _ := started(t, r, keys...)
		c := chunk(eventRange(0, 20)...)
		restarts := 0
		for flush(in, c) != OK {
			if restarts++; restarts > 20 {
				t.Fatal("it does not come to an end")
			}
			in, _ = restart(t, in, r, keys...)
			left = 1
		}
		stop(in)
		r.wantGot(t, eventRange(0, 20)...)
		if restarts < 5 {
			t.Errorf("done after %d restarts, want one for each batch", restarts)
		}
	})
}

func TestAStateFileOfAnotherDestinationKeyOrModeIsNotUsed(t *testing.T) {
	for _, other := range [][]string{{"Mode", "batch"}, {"Log_Key", "message"}, {"destination", "?other"}} {
		t.Run(other[0], func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{}
				in, _ := started(t, r, "State_Dir", dir)
				flush(in, chunk(event(0)))
				query := ""
				if other[0] == "destination" {
					query, other = other[1], nil
				}
				in, _ = restart(t, in, &receiver{query: query}, append(other, "State_Dir", dir)...)
				if waiting, _ := in.claims.counts(); waiting != 0 {
					t.Error("it took up the other one's claims")
				}
				stop(in)
				in, _ = started(t, r, "State_Dir", dir)
				if waiting, _ := in.claims.counts(); waiting != 1 {
					t.Error("its own are gone")
				}
				stop(in)
			})
		})
	}
}

func TestOutputsOfOneDestinationLeaveAFileEach(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		p := &Process{Log: &logBuffer{}}
		first, second := startedIn(t, p, r, "State_Dir", dir), startedIn(t, p, r, "State_Dir", dir)
		c := chunk(event(0))
		flush(first, c)
		flush(second, c)
		stop(first)
		stop(second)
		p = &Process{Log: &logBuffer{}}
		first, second = startedIn(t, p, r, "State_Dir", dir), startedIn(t, p, r, "State_Dir", dir)
		for _, in := range []*Instance{first, second} {
			if answer := flush(in, c); answer != OK {
				t.Errorf("answer %d", answer)
			}
			stop(in)
		}
		r.wantGot(t, event(0), event(0))
	})
}

func TestADamagedStateFileIsPutAsideWithAWarning(t *testing.T) {
	damage := map[string]func(text []byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"cut":              func(text []byte) []byte { return text[:len(text)-1] },
		"a bit is flipped": func(text []byte) []byte { text[len(text)-30] ^= 1; return text },
		"foreign":          func([]byte) []byte { return []byte("{}\n") },
	}
	for name, damaged := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{}
				in, _ := started(t, r, "State_Dir", dir)
				flush(in, chunk(event(0)))
				stop(in)
				file := in.stateFiles()[0]
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, damaged(text), 0o600); err != nil {
					t.Fatal(err)
				}
				in, log := started(t, r, "State_Dir", dir)
				if n := log.count("a state file is not used"); n != 1 {
					t.Errorf("%d warnings:\n%s", n, log)
				}
				if _, err := os.Stat(file + ".damaged"); err != nil {
					t.Error(err)
				}
				if answer := flush(in, chunk(event(0))); answer != OK {
					t.Errorf("answer %d", answer)
				}
				stop(in)
				r.wantGot(t, event(0), event(0))
			})
		})
	}
}

func TestStateIsNotUsedAfterAnHour(t *testing.T) {
	for _, tt := range []struct {
		name         string
		away, after  time.Duration
		wantAccepted int
	}{
		{"within it", 59 * time.Minute, 0, 1},
		{"the process was away for longer", time.Hour, 0, 2},
		{"the chunk comes later", time.Minute, time.Hour, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{}
				in, _ := started(t, r, "State_Dir", dir)
				flush(in, chunk(event(0)))
				stop(in)
				time.Sleep(tt.away)
				in, _ = started(t, r, "State_Dir", dir)
				time.Sleep(tt.after)
				flush(in, chunk(event(0)))
				stop(in)
				r.wantGot(t, slices.Repeat([]string{event(0)}, tt.wantAccepted)...)
			})
		})
	}
}

func TestOfAnotherVersionOnlyWhatIsDoneIsUsed(t *testing.T) {
	s := state{Version: "v1", Written: time.Now(), Key: make([]byte, 32), Chunks: []stateChunk{
		{Tag: "a", Size: 1, Sum: make([]byte, 16)},
		{Tag: "b", Size: 1, Sum: make([]byte, 16), Todo: []span{{3, toEnd}}},
	}}
	for version, want := range map[string]int{"v1": 2, "v2": 1} {
		if waiting, _ := claimsOf(s, version).counts(); waiting != want {
			t.Errorf("%s takes %d chunks, want %d", version, waiting, want)
		}
	}
}

func TestAStateThatCannotBeWrittenCostsNoEvent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, log := started(t, r, "State_Dir", dir)
		flush(in, chunk(event(0)))
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		stop(in)
		if n := log.count("the state could not be written"); n != 1 {
			t.Errorf("%d lines say so:\n%s", n, log)
		}
		r.wantGot(t, event(0))
	})
}

func TestAFolderThatCannotBeIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"State_Dir", "Dead_Letter_Dir"} {
		for value, want := range map[string]string{
			file:                         "it is no folder: name one, or one that can be made",
			filepath.Join(file, "state"): "stat " + filepath.Join(file, "state") + ": not a directory",
		} {
			_, err := ParseConfig(from("URL", "http://w/", key, value))
			if want := fmt.Sprintf("%s %q: %s", key, value, want); err == nil || err.Error() != want {
				t.Errorf("%v\nwant %s", err, want)
			}
		}
		// Whether it can be made is known when it is made.
		value := "/proc/none/state"
		if _, err := ParseConfig(from("URL", "http://w/", key, value)); err != nil {
			t.Error(err)
		}
		_, err := (&Process{Log: &logBuffer{}}).Init(from("URL", "http://127.0.0.1:1/", key, value))
		if want := fmt.Sprintf("%s %q: mkdir /proc/none: ", key, value); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the check made something: %v", entries)
	}
}

func TestTheStateFolderIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "state")
	in, err := (&Process{Log: &logBuffer{}}).Init(from("URL", "http://127.0.0.1:1/", "State_Dir", dir))
	if err != nil {
		t.Fatal(err)
	}
	in.Exit()
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v (%v), want a folder for the user alone", info, err)
	}
}
