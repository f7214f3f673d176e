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

	"out_k8saudit/plugin/record"
)

// This file is what an instance leaves to the next one: after a reload in the same
// process, and after a restart in State_Dir.

// refuse is a webhook that is down.
func refuse(context.Context, int, []string) error { return errors.New("connection refused") }

// reload exits in as Fluent Bit does for a hot reload and starts another
// instance, which sends to r.
func reload(t *testing.T, in *Instance, r *receiver, keys ...string) *Instance {
	t.Helper()
	in.process.PreExit(true)
	in.Exit()
	return startedIn(t, in.process, r, keys...)
}

// stop exits in as Fluent Bit does when it ends.
func stop(in *Instance) {
	in.process.PreExit(false)
	in.Exit()
}

// restart ends the process of in and starts another one with an instance that
// sends to r.
func restart(t *testing.T, in *Instance, r *receiver, keys ...string) (*Instance, *logBuffer) {
	t.Helper()
	stop(in)
	return started(t, r, keys...)
}

// goOn ends in in one of the ways and starts the next instance.
var goOn = map[string]func(t *testing.T, in *Instance, r *receiver, keys ...string) *Instance{
	"reload": reload,
	"restart": func(t *testing.T, in *Instance, r *receiver, keys ...string) *Instance {
		next, _ := restart(t, in, r, keys...)
		return next
	},
}

func TestTheNextInstanceSendsOnlyWhatWasNotAccepted(t *testing.T) {
	for how, next := range goOn {
		for _, mode := range []string{"blocking", "batch"} {
			for _, drain := range []string{"0", "1s", "10m"} {
				t.Run(how+"/"+mode+"/Drain_Timeout "+drain, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "fb[1]")
					synctest.Test(t, func(t *testing.T) {
						// Every second request is refused.
						r := &receiver{answer: func(_ context.Context, n int, _ []string) error {
							time.Sleep(300 * time.Millisecond)
							if n%2 == 0 {
								return errors.New("connection refused")
							}
							return nil
						}}
						keys := []string{"Mode", mode, "State_Dir", dir, "Dead_Letter_Dir", dir, "Batch_Max_Size", "5", "Batch_Buffer_Size", "20",
							"Max_Concurrent_Requests", "1", "Flush_Timeout", "1s", "Initial_Backoff", "1m", "Max_Backoff", "1m", "Drain_Timeout", drain}
						in, log := started(t, r, keys...)
						c := chunk(eventRange(0, 148)...)
						if answer := flush(in, c); answer != Retry {
							t.Fatalf("answer %d, want RETRY", answer)
						}
						unread := chunk(eventRange(148, 150)...)
						flush(in, unread)
						for range 3 {
							in = next(t, in, r, keys...)
							flush(in, c)
						}
						if n := r.accepted(); n == 0 || n == 150 && drain != "10m" {
							t.Errorf("%d of 150 events accepted, want some", n)
						}
						r.now(nil)
						for _, c := range [][]byte{c, unread} {
							for flush(in, c) != OK {
								time.Sleep(time.Second)
							}
						}
						time.Sleep(time.Hour)
						stop(in)
						r.wantGot(t, eventRange(0, 150)...)
						if n := log.count("is lost"); n != 0 {
							t.Errorf("the log:\n%s", log)
						}
					})
				})
			}
		}
	}
}

func TestAReloadInModeBatchLosesNothingWithoutDeadLetterDir(t *testing.T) {
	for _, mode := range []string{"batch", "blocking"} { // of the next one
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, log := started(t, &receiver{answer: refuse}, "Mode", "batch", "Drain_Timeout", "1s")
				c := chunk(eventRange(0, 25)...)
				if answer := flush(in, c); answer != OK {
					t.Fatalf("answer %d, want OK", answer)
				}
				in = reload(t, in, &receiver{answer: refuse}, "Mode", "batch", "Drain_Timeout", "1s")
				most := 0
				r := &receiver{answer: func(_ context.Context, _ int, items []string) error {
					most = max(most, len(items))
					return nil
				}}
				in = reload(t, in, r, "Mode", mode, "Batch_Max_Size", "10", "Max_Concurrent_Requests", "1")
				time.Sleep(2 * time.Second)
				r.wantGot(t, eventRange(0, 25)...)
				if _, inFlight := in.ledger.Count(); inFlight != 0 {
					t.Errorf("%d are left in flight", inFlight)
				}
				if answer := flush(in, c); answer != OK { // its answer was not read
					t.Errorf("answer %d, want OK", answer)
				}
				stop(in)
				r.wantGot(t, eventRange(0, 25)...)
				if most != 10 || log.count("is lost") != 0 {
					t.Errorf("the largest batch has %d events, want 10; the log:\n%s", most, log)
				}
			})
		})
	}
}

func TestWhatNoInstanceGoesOnWithIsKeptOrToldAsLost(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, p *Process){
		"nobody comes in time": func(t *testing.T, p *Process) { time.Sleep(handoverKept) },
		"the configuration is wrong": func(t *testing.T, p *Process) {
			if _, err := p.Init(from("Mode", "fast")); err == nil {
				t.Error("it started")
			}
		},
		"the process ends": func(t *testing.T, p *Process) { stop(startedIn(t, p, &receiver{query: "?other"}, "Mode", "batch")) },
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/Dead_Letter_Dir %v", name, kept), func(t *testing.T) {
				state, dead := t.TempDir(), t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					keys := []string{"Mode", "batch", "State_Dir", state, "Drain_Timeout", "1s"}
					if kept {
						keys = append(keys, "Dead_Letter_Dir", dead)
					}
					in, log := started(t, &receiver{answer: refuse}, keys...)
					flush(in, chunk(event(7)))
					in.process.PreExit(true)
					in.Exit()
					if n := log.count("an event is lost"); n != 0 {
						t.Errorf("%d lines tell of losses too early", n)
					}
					end(t, in.process)
					synctest.Wait()
					lost := 1
					if kept {
						lost = 0
						wantLines(t, "undelivered", content(t, dead, "undelivered-*.log"), event(7))
					}
					if n := log.count("an event is lost: Drain_Timeout is over event=00007/ResponseComplete"); n != lost {
						t.Errorf("%d lines tell of the loss, want %d:\n%s", n, lost, log)
					}
					// The next process has its State_Dir at once.
					start := time.Now()
					r := &receiver{}
					in, _ = started(t, r, keys...)
					if took := time.Since(start); took != 0 {
						t.Errorf("State_Dir was held for %v", took)
					}
					time.Sleep(time.Second)
					flush(in, chunk(event(7))) // comes again: nobody has read the answer
					stop(in)
					r.wantGot(t, event(7))
				})
			})
		}
	}
}

func TestOutputsOfOneDestinationNeverTakeEachOthers(t *testing.T) {
	for how := range goOn {
		for _, idle := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("%s/idle %d", how, idle), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					r := &receiver{answer: sleeping(5 * time.Second)}
					p := &Process{Log: &logBuffer{}}
					startBoth := func() []*Instance {
						return []*Instance{startedIn(t, p, r, "State_Dir", dir), startedIn(t, p, r, "State_Dir", dir)}
					}
					both := startBoth()
					c := chunk(eventRange(0, 3)...)
					var want []string
					for i, in := range both {
						if i == idle {
							continue
						}
						if answer := flush(in, c); answer != Retry {
							t.Fatal(answer)
						}
						want = append(want, eventRange(0, 3)...)
					}
					for range 2 {
						for _, in := range both {
							p.PreExit(how == "reload")
							in.Exit()
						}
						if how == "restart" {
							p = &Process{Log: &logBuffer{}}
						}
						both = startBoth()
					}
					for i, in := range both {
						if i != idle {
							if answer := flush(in, c); answer != OK {
								t.Errorf("answer %d, want OK", answer)
							}
						}
					}
					r.wantGot(t, want...)
					if idle >= 0 { // what the other one has delivered is new to it
						for flush(both[idle], c) != OK {
							time.Sleep(time.Second)
						}
						r.wantGot(t, append(want, eventRange(0, 3)...)...)
					}
					for _, in := range both {
						stop(in)
					}
				})
			})
		}
	}
}

func TestAnOutputIsKnownByItsInstanceOrItsDestination(t *testing.T) {
	for how, next := range goOn {
		for _, tt := range []struct {
			name         string
			before, then []string
			query        string
			same         bool
		}{
			{"the same destination", nil, nil, "", true},
			{"another destination", nil, nil, "?other", false},
			{"another mode and Log_Key", nil, []string{"Mode", "batch", "Log_Key", "message"}, "", true},
			{"the same Instance", []string{"Instance", "a"}, []string{"Instance", "a"}, "?other", true},
			{"another Instance", []string{"Instance", "a"}, []string{"Instance", "b"}, "", false},
			{"an Instance from now on", nil, []string{"Instance", "a"}, "", false},
		} {
			t.Run(how+"/"+tt.name, func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					in, _ := started(t, &receiver{}, append(tt.before, "State_Dir", dir)...)
					flush(in, chunk(event(0)))
					r := &receiver{query: tt.query}
					in = next(t, in, r, append(tt.then, "State_Dir", dir)...)
					c := chunk(event(0))
					if len(tt.then) == 4 {
						c = []byte(strings.ReplaceAll(string(c), "\xa3log", "\xa7message"))
					}
					flush(in, c)
					stop(in)
					in.process.noHeirs()
					if tt.same {
						r.wantGot(t)
					} else {
						r.wantGot(t, event(0))
					}
				})
			})
		}
	}
}

func TestTwoOutputsWithOneInstanceAreRefused(t *testing.T) {
	log := &logBuffer{}
	p := &Process{Log: log}
	keys := from("URL", "http://127.0.0.1:1/", "Instance", "audit")
	in, err := p.Init(keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Init(keys); err == nil || log.count("Instance audit: another output has that name: give each one of its own") != 1 {
		t.Errorf("%v, the log:\n%s", err, log)
	}
	in.Exit()
	if in, err = p.Init(keys); err != nil {
		t.Fatal(err)
	}
	in.Exit()
}

func TestAReloadThatFailsForgetsNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(5 * time.Second)}
		in, _ := started(t, r, "State_Dir", dir)
		c := chunk(eventRange(0, 3)...)
		if answer := flush(in, c); answer != Retry {
			t.Fatal(answer)
		}
		in.process.PreExit(true)
		in.Exit() // all three are accepted within Drain_Timeout
		if _, err := in.process.Init(from("Mode", "fast")); err == nil {
			t.Fatal("it started")
		} // Fluent Bit ends
		in, _ = started(t, r, "State_Dir", dir)
		if answer := flush(in, c); answer != OK {
			t.Errorf("answer %d, want OK", answer)
		}
		stop(in)
		r.wantGot(t, eventRange(0, 3)...)
	})
}

func TestAReloadMayMoveStateDir(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r)
		for i, keys := range [][]string{{"State_Dir", first}, {"State_Dir", second}, nil, {"State_Dir", second}} {
			flush(in, chunk(eventRange(0, i+1)...))
			in = reload(t, in, r, keys...)
		}
		in, _ = restart(t, in, r, "State_Dir", second)
		flush(in, chunk(eventRange(0, 5)...))
		stop(in)
		r.wantGot(t, eventRange(0, 5)...)
	})
}

func TestWhatWasGivenUpAsLostIsSentWhenItComesAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		in, log := started(t, &receiver{answer: refuse}, "Mode", "batch", "State_Dir", dir, "Drain_Timeout", "1s")
		c := chunk(event(0))
		if answer := flush(in, c); answer != OK {
			t.Fatal(answer)
		}
		r := &receiver{}
		in, _ = restart(t, in, r, "Mode", "batch", "State_Dir", dir)
		if n := log.count("an event is lost"); n != 1 {
			t.Errorf("the log:\n%s", log)
		}
		flush(in, c) // nobody has read the answer
		time.Sleep(time.Minute)
		stop(in)
		r.wantGot(t, event(0))
	})
}

func TestAnEventThatWasTruncatedAndKeptIsSentOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keys := []string{"Mode", "batch", "State_Dir", dir, "Dead_Letter_Dir", dir, "Truncate_Enabled", "On", "Truncate_Max_Event_Size", "1000", "Drain_Timeout", "1s"}
		in, _ := started(t, &receiver{answer: refuse}, keys...)
		c := chunk(filled(wholeEvent, 2000), event(1))
		if answer := flush(in, c); answer != OK {
			t.Fatal(answer)
		}
		r := &receiver{}
		in, _ = restart(t, in, r, keys...)
		flush(in, c) // nobody has read the answer
		time.Sleep(time.Minute)
		stop(in)
		r.wantGot(t, truncatedEvent, event(1))
		wantLines(t, "undelivered", content(t, dir, "undelivered-*.log"))
	})
}

// What was changed after it was read may have become the same as another one.
func TestEventsThatBecameTheSameAreAllKept(t *testing.T) {
	base := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"%s","stage":"ResponseComplete"}`
	for name, c := range map[string][]byte{
		"bytes that are not UTF-8": chunk(fmt.Sprintf(base, "\xff"), fmt.Sprintf(base, "\xfe")),
		"timestamps left out":      slices.Concat(parsedEvent("c", 1767323045, 100_123), parsedEvent("c", 1767323045, 200_456)),
		"truncated":                chunk(filled(wholeEvent, 2000), filled(wholeEvent, 3000)),
		"a line feed":              chunk(strings.Replace(event(0), ",", ",\n", 1), event(0)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				keys := []string{"Mode", "batch", "State_Dir", dir, "Dead_Letter_Dir", dir, "Drain_Timeout", "1s", "Truncate_Enabled", "On", "Truncate_Max_Event_Size", "1000"}
				in, _ := started(t, &receiver{answer: refuse}, keys...)
				flush(in, c)
				r := &receiver{}
				for range 3 {
					in, _ = restart(t, in, r, keys...)
					flush(in, c) // nobody has read the answer
					time.Sleep(time.Minute)
				}
				stop(in)
				if r.accepted() != 2 {
					t.Errorf("of two events %d came: %s", r.accepted(), strings.Join(r.items, " "))
				}
			})
		})
	}
}

func TestAFlushThatAnExitMeetsAnswersForNothing(t *testing.T) {
	for _, mode := range []string{"batch", "blocking"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{}
				in, _ := started(t, r, "Mode", mode)
				reading, goOn := make(chan struct{}), make(chan struct{})
				in.walks.New = func() any {
					w := in.newWalk()
					w.reader.OnSkip = func(record.Skip) { close(reading); <-goOn }
					return w
				}
				answer := make(chan Answer)
				go func() { answer <- flush(in, chunk("no event", event(1), event(2))) }()
				<-reading
				stop(in)
				close(goOn)
				if a := <-answer; a != Retry {
					t.Errorf("answer %d, want RETRY", a)
				}
				r.wantGot(t)
			})
		})
	}
}

func TestSkipsAreNotReportedAgainAfterAReload(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		in, _ := started(t, &receiver{answer: sleeping(time.Hour)}, "Dead_Letter_Dir", dir, "Drain_Timeout", "0")
		c := chunk("no event", event(1))
		if answer := flush(in, c); answer != Retry {
			t.Fatal(answer)
		}
		r := &receiver{}
		in = reload(t, in, r, "Dead_Letter_Dir", dir)
		if answer := flush(in, c); answer != OK {
			t.Errorf("answer %d, want OK", answer)
		}
		stop(in)
		if n := len(content(t, dir, "skipped.log")); n != 1 {
			t.Errorf("skipped.log has %d lines for one record", n)
		}
		r.wantGot(t, event(1))
	})
}

func TestAStateDirThatFailsCostsNoEvent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, log := started(t, r, "State_Dir", dir)
		flush(in, chunk(event(0)))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in its place
			t.Fatal(err)
		}
		for i := 1; i < 100; i++ {
			if answer := flush(in, chunk(event(i))); answer != OK {
				t.Errorf("answer %d, want OK", answer)
			}
			time.Sleep(5 * time.Second)
		}
		if n := log.count("State_Dir cannot be written: what is delivered meanwhile may be sent again after a restart error="); n < 2 || n > 10 {
			t.Errorf("%d lines say so in 500 s, want one a minute:\n%s", n, log)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		flush(in, chunk(event(100)))
		if n := log.count("State_Dir is written again, with all that is remembered"); n != 1 {
			t.Errorf("the log:\n%s", log)
		}
		in, _ = restart(t, in, r, "State_Dir", dir)
		if answer := flush(in, chunk(eventRange(0, 101)...)); answer != OK {
			t.Errorf("answer %d, want OK", answer)
		}
		stop(in)
		r.wantGot(t, eventRange(0, 101)...)
	})
}

func TestAStateDirOfAnotherProcessStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		in, _ := started(t, &receiver{}, "State_Dir", dir)
		cfg, err := ParseConfig(from("URL", "http://webhook.example/audit", "State_Dir", dir))
		if err != nil {
			t.Fatal(err)
		}
		_, err = assemble(&Process{Log: &logBuffer{}}, "a", cfg, &receiver{})
		if want := fmt.Sprintf("State_Dir %q: another process has it open: ", dir); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		stop(in)
	})
}

func TestFoldersThatOthersMayWriteToAreRefused(t *testing.T) {
	for _, key := range []string{"State_Dir", "Dead_Letter_Dir"} {
		dir := t.TempDir()
		for _, mode := range []os.FileMode{0o770, 0o702, 0o777 | os.ModeSticky} {
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			_, err := (&Process{Log: &logBuffer{}}).Init(from("URL", "http://127.0.0.1:1/", key, dir))
			if want := fmt.Sprintf("%s %q: others than its owner may write to it: chmod go-w %q", key, dir, dir); err == nil || err.Error() != want {
				t.Errorf("%v\nwant %s", err, want)
			}
		}
		if os.Geteuid() != 0 {
			continue
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 4711, 4711); err != nil {
			t.Fatal(err)
		}
		_, err := (&Process{Log: &logBuffer{}}).Init(from("URL", "http://127.0.0.1:1/", key, dir))
		if want := fmt.Sprintf("%s %q: it belongs to another user: chown 0 %q", key, dir, dir); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
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
