package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// content is the lines of all files whose names match pattern.
func content(t *testing.T, dir, pattern string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// refusing refuses each request that holds the event.
func refusing(bad string) *receiver {
	return &receiver{answer: func(_ context.Context, _ int, items []string) error {
		for _, item := range items {
			if item == bad {
				return status(400)
			}
		}
		return nil
	}}
}

// flushUntilDone flushes a chunk until it is done, and others meanwhile, which it
// returns.
func flushUntilDone(t *testing.T, in *Instance, c []byte) (others []string) {
	t.Helper()
	for i := 1000; flush(in, c) != OK; i++ {
		if i > 1200 {
			t.Fatal("the chunk is never done")
		}
		flush(in, chunk(event(i)))
		others = append(others, event(i))
		time.Sleep(5 * time.Second)
	}
	return others
}

func TestWhatIsRefusedForGoodIsWrittenToAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dead")
	synctest.Test(t, func(t *testing.T) {
		r := refusing(event(7))
		in, log := started(t, r, "Dead_Letter_Dir", dir)
		others := flushUntilDone(t, in, chunk(eventRange(0, 20)...))
		stop(in)
		r.wantGot(t, append(append(others, eventRange(0, 7)...), eventRange(8, 20)...)...)
		wantLines(t, "rejected.log", content(t, dir, "rejected.log"), event(7))
		if n := log.count("it is set aside and not sent again event=00007/ResponseComplete bytes=92 error=\"answered 400\" kept_in=" + dir); n != 1 {
			t.Errorf("%d lines name it:\n%s", n, log)
		}
		checkAccount(t, in, r)
	})
}

func TestWhatCannotBeWrittenIsNotSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dead")
	synctest.Test(t, func(t *testing.T) {
		r := refusing(event(7))
		in, log := started(t, r, "Dead_Letter_Dir", dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		c := chunk(eventRange(5, 10)...)
		var others []string
		for i := range 300 {
			if answer := flush(in, c); answer != Retry {
				t.Fatalf("answer %d, want RETRY while the event can be kept nowhere", answer)
			}
			flush(in, chunk(event(2000+i)))
			others = append(others, event(2000+i))
			time.Sleep(5 * time.Second)
		}
		if n := log.count("cannot be written to Dead_Letter_Dir: it is tried again"); n < 2 || n > 25 {
			t.Errorf("%d lines say so, want one a minute", n)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		others = append(others, flushUntilDone(t, in, c)...)
		stop(in)
		r.wantGot(t, append(others, event(5), event(6), event(8), event(9))...)
		wantLines(t, "rejected.log", content(t, dir, "rejected.log"), event(7))
	})
}

func TestWhatIsNoAuditEventIsWrittenToAFile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r, "Dead_Letter_Dir", dir)
		flush(in, chunk(event(0), "no event", `{"kind":"Pod"}`, event(1)))
		stop(in)
		r.wantGot(t, event(0), event(1))
		wantLines(t, "skipped.log", content(t, dir, "skipped.log"),
			`{"time":"2000-01-01T00:00:00Z","tag":"kube.audit","reason":"raw line is not valid JSON","bytes":8,"raw":"no event"}`,
			`{"time":"2000-01-01T00:00:00Z","tag":"kube.audit","reason":"other kind or apiVersion","bytes":14,"raw":"{\"kind\":\"Pod\"}"}`)
	})
}

func TestWhatModeBatchCouldNotDeliverIsSentAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"Mode", "batch", "Dead_Letter_Dir", dir, "Batch_Max_Size", "10"}
		in, log := started(t, &receiver{answer: refuse}, keys...)
		if answer := flush(in, chunk(eventRange(0, 25)...)); answer != OK {
			t.Fatalf("answer %d, want OK", answer)
		}
		stop(in)
		wantSorted(t, "undelivered", content(t, dir, "undelivered-*.log"), eventRange(0, 25))
		if n := log.count("undelivered events are kept in Dead_Letter_Dir, and sent at the next start events=25"); n != 1 || log.count("is lost") != 0 {
			t.Errorf("the log:\n%s", log)
		}
		// Another destination must not get them.
		other := &receiver{query: "?other"}
		in, _ = started(t, other, keys...)
		time.Sleep(time.Minute)
		stop(in)
		other.wantGot(t)

		r := &receiver{}
		in, log = started(t, r, keys...)
		time.Sleep(time.Second)
		r.wantGot(t, eventRange(0, 25)...)
		wantLines(t, "what is left", content(t, dir, "undelivered-*.log"))
		stop(in)
		if n := log.count("undelivered events were sent from Dead_Letter_Dir file=undelivered-"); n != 1 {
			t.Errorf("the log:\n%s", log)
		}
		checkAccount(t, in, r)
	})
}

func wantSorted(t *testing.T, what string, got, want []string) {
	t.Helper()
	r := &receiver{items: got}
	t.Log(what)
	r.wantGot(t, want...)
}

func TestUndeliveredEventsAreSentOnceAcrossRestarts(t *testing.T) {
	for _, mode := range []string{"batch", "blocking"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				keys := []string{"Dead_Letter_Dir", dir, "State_Dir", dir, "Batch_Max_Size", "3", "Batch_Buffer_Size", "30", "Max_Concurrent_Requests", "1",
					"Initial_Backoff", "10m", "Max_Backoff", "10m", "Drain_Timeout", "1s"}
				in, _ := started(t, &receiver{answer: refuse}, append(keys, "Mode", "batch")...)
				for from := 0; from < 30; from += 3 {
					flush(in, chunk(eventRange(from, from+3)...))
				}
				taken := int(in.backend.Stats().Taken)
				stop(in)
				file := content(t, dir, "undelivered-*.log")
				wantSorted(t, "undelivered", file, eventRange(0, taken))
				// Each instance delivers two batches, and no more; the last ones without end.
				left := 0
				r := &receiver{answer: func(context.Context, int, []string) error {
					if left == 0 {
						return errors.New("connection refused")
					}
					left--
					return nil
				}}
				p := &Process{Version: "test", Log: &logBuffer{}}
				for restarts := 0; r.accepted() < taken; restarts++ {
					if restarts > 20 {
						t.Fatal("it does not come to an end")
					}
					wantLines(t, "what is left", content(t, dir, "undelivered-*.log"), file...) // nothing is rewritten
					left = 2
					in := startedIn(t, p, r, append(keys, "Mode", mode)...)
					time.Sleep(time.Second)
					p.PreExit(restarts%3 == 1) // a reload now and then
					in.Exit()
					if restarts%3 != 1 {
						p = &Process{Version: "test", Log: &logBuffer{}}
					}
				}
				p.noHeirs()
				r.wantGot(t, eventRange(0, taken)...)
				wantLines(t, "what is left", content(t, dir, "undelivered-*.log"))
			})
		})
	}
}
