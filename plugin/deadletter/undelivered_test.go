// Tests of undelivered events: kept, taken up by one, settled or given back.

package deadletter

import (
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func each(events ...string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, e := range events {
			if !yield([]byte(e)) {
				return
			}
		}
	}
}

func keep(t *testing.T, d *Dir, id string, events ...string) {
	t.Helper()
	if n, err := d.Keep(id, each(events...)); n != len(events) || err != nil {
		t.Fatalf("%d of %d events kept: %v", n, len(events), err)
	}
}

func TestKeptEventsComeBackInOrderUntilTheyAreSettled(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, d *Dir) {
		long := `{"x":"` + strings.Repeat("x", 3<<20) + `"}`
		keep(t, d, "0f", `{"n":1}`, "{\n\"n\":2}", long)
		time.Sleep(time.Hour)
		keep(t, d, "0f", `{"n":3}`)
		keep(t, d, "0f", `{"n":4}`)
		keep(t, d, "0f")
		wantContents(t, d,
			`undelivered-0f-2000-01-01T00-00-00.000.log: {"n":1}|{ "n":2}|`+long+`|`,
			`undelivered-0f-2000-01-01T01-00-00.000.log: {"n":3}|`,
			`undelivered-0f-2000-01-01T01-00-00.001.log: {"n":4}|`)

		all := []string{`{"n":1}`, `{ "n":2}`, long, `{"n":3}`, `{"n":4}`}
		taken := takeUp(t, d, "0f")
		wantEvents(t, takeAll(t, taken), all...)
		taken.Close()
		taken.Close()

		taken = takeUp(t, d, "0f")
		wantEvents(t, takeAll(t, taken), all...)
		must(t, taken.Settled())
		taken.Close()
		if _, err := taken.Next(); err != io.EOF {
			t.Errorf("after Close: %v", err)
		}
		wantContents(t, d)
		if again := takeUp(t, d, "0f"); again != nil {
			t.Error("settled events came again")
		}
	})
}

func TestEventsGoToTheirOwnDestinationAlone(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", `{"to":"0f"}`)
		keep(t, d, "0f1", `{"to":"0f1"}`)
		keep(t, d, "f", `{"to":"f"}`)
		for _, id := range []string{"0f", "f", "0f1"} {
			taken := takeUp(t, d, id)
			wantEvents(t, takeAll(t, taken), `{"to":"`+id+`"}`)
			taken.Close()
		}
		if taken := takeUp(t, d, "0"); taken != nil {
			t.Error("an identity got the events of another that it begins")
		}
		for _, id := range []string{"", "0F", "a/b", "..", "a-1", strings.Repeat("a", 65)} {
			if _, err := d.Keep(id, each("{}")); err == nil {
				t.Errorf("Keep took the identity %q", id)
			}
			if _, err := d.TakeUp(id); err == nil {
				t.Errorf("TakeUp took the identity %q", id)
			}
		}
	})
}

func TestOneTakerGetsAnEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead")
	keep(t, open(t, path), "0f", "{}", "{}")
	var takers, events atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		d := open(t, path)
		wg.Go(func() {
			taken, err := d.TakeUp("0f")
			if taken == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			takers.Add(1)
			events.Add(int32(len(takeAll(t, taken))))
			if err := taken.Settled(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if takers.Load() != 1 || events.Load() != 2 {
		t.Errorf("%d takers got %d events", takers.Load(), events.Load())
	}
}

func TestWhatIsNotReadToItsEndIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", `{"n":1}`)
		keep(t, d, "0f", `{"n":2}`, `{"n":3}`)
		taken := takeUp(t, d, "0f")
		for range 2 {
			if _, err := taken.Next(); err != nil {
				t.Fatal(err)
			}
		}
		must(t, taken.Settled())
		taken = takeUp(t, d, "0f")
		wantEvents(t, takeAll(t, taken), `{"n":2}`, `{"n":3}`)
		taken.Close()
	})
}

func TestTheRestCanBeKeptAnew(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", `{"n":1}`, `{"n":2}`, `{"n":3}`)
		taken := takeUp(t, d, "0f")
		if _, err := taken.Next(); err != nil {
			t.Fatal(err)
		}
		n, err := d.Keep("0f", func(yield func([]byte) bool) {
			for event, err := taken.Next(); err == nil && yield(event); {
				event, err = taken.Next()
			}
		})
		if n != 2 || err != nil {
			t.Fatal(n, err)
		}
		must(t, taken.Settled())
		wantContents(t, d, `undelivered-0f-2000-01-01T00-00-00.001.log: {"n":2}|{"n":3}|`)
	})
}

func TestNothingIsTakenUpWhileItIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		n, err := d.Keep("0f", func(yield func([]byte) bool) {
			yield([]byte("{}"))
			if taken := takeUp(t, d, "0f"); taken != nil {
				t.Error("taken up")
			}
		})
		if n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestWhatIsNoEventIsLeftOutAndTold(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	d.limits.line = 20
	put(t, d, "undelivered-0f-2000-01-01T00-00-00.000.log", "{\"n\":1}\n{\"n\"\n\n[1]\n{\"x\":\"longer than is read\"}\n{\"a\":\"read whole?\"}  x\n {\"n\":2} \n{\"n\":3}")
	put(t, d, "undelivered-0f-2000-01-01T00-00-00.001.log", "{\"n\":4}\n{\"n\":")
	taken := takeUp(t, d, "0f")
	wantEvents(t, takeAll(t, taken), `{"n":1}`, ` {"n":2} `, `{"n":3}`, `{"n":4}`)
	if n := taken.Unreadable(); n != 5 {
		t.Errorf("%d unreadable", n)
	}
	must(t, taken.Settled())
	line := func(file, n, raw string) string {
		return `{"time":"","tag":"","reason":"no event in a line of undelivered-0f-2000-01-01T00-00-00.00` + file + `.log","bytes":` + n + `,"raw":"` + raw + `"}|`
	}
	wantContents(t, d, "skipped.log: "+line("0", "4", `{\"n\"`)+line("0", "3", "[1]")+line("0", "27", `{\"x\":\"longer than is`)+line("0", "22", `{\"a\":\"read whole?\"} `)+line("1", "5", `{\"n\":`))
}

func TestKeepSaysHowManyAreOnTheDisk(t *testing.T) {
	events := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}
	for _, tt := range []struct {
		name string
		set  func(*Dir, *faults)
		kept int
		err  error
	}{
		{"disk full", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 20 }, 2, syscall.ENOSPC},
		{"disk full at a line's end", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 16 }, 2, syscall.ENOSPC},
		{"no byte left", func(_ *Dir, f *faults) { f.write = syscall.ENOSPC }, 0, syscall.ENOSPC},
		{"all they may take", func(d *Dir, _ *faults) { d.limits.undelivered = 16 }, 2, ErrFull},
		{"too long", func(d *Dir, _ *faults) { d.limits.line = 6 }, 0, ErrTooLong},
		{"read-only", func(_ *Dir, f *faults) { f.open = syscall.EROFS }, 0, syscall.EROFS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *Dir) {
				f := breakDisk(d)
				tt.set(d, f)
				n, err := d.Keep("0f", each(events...))
				if n != tt.kept || !errors.Is(err, tt.err) {
					t.Errorf("kept %d: %v", n, err)
				}
				*f, d.limits = faults{}, defaultLimits
				taken := takeUp(t, d, "0f")
				wantEvents(t, takeAll(t, taken), events[:tt.kept]...)
				if (taken == nil) != (tt.kept == 0) {
					t.Error("a file without an event is there")
				}
			})
		})
	}
}

func TestTheRoomIsThatOfAllFilesOfADestination(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		d.limits.undelivered = 16
		keep(t, d, "0f", `{"n":1}`)
		keep(t, d, "0e", `{"n":1}`, `{"n":2}`)
		if n, err := d.Keep("0f", each(`{"n":2}`, `{"n":3}`)); n != 1 || !errors.Is(err, ErrFull) {
			t.Errorf("kept %d: %v", n, err)
		}
	})
}

func TestEventsWhoseSyncFailedAreNotCountedAndNotRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		f := breakDisk(d)
		f.sync = syscall.EIO
		if n, err := d.Keep("0f", each("{}")); n != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("kept %d: %v", n, err)
		}
		wantEvents(t, takeAll(t, takeUp(t, d, "0f")), "{}")
	})
}

func TestAFileThatCannotBeReadIsNotSettled(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		f := breakDisk(d)
		keep(t, d, "0f", "{}")
		taken := takeUp(t, d, "0f")
		f.read = syscall.EIO
		for range 2 {
			if _, err := taken.Next(); !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v", err)
			}
			f.read = nil
		}
		must(t, taken.Settled())
		wantEvents(t, takeAll(t, takeUp(t, d, "0f")), "{}")
	})
}

func TestATornLineThatCannotBeToldIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		f := breakDisk(d)
		put(t, d, "undelivered-0f-2000-01-01T00-00-00.000.log", "{}\n{")
		taken := takeUp(t, d, "0f")
		f.write = syscall.ENOSPC
		wantEvents(t, takeAll(t, taken), "{}")
		if err := taken.Settled(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
		wantContents(t, d)
	})
}

func TestAFileThatSomebodyRemovedIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", "{}")
		taken := takeUp(t, d, "0f")
		wantEvents(t, takeAll(t, taken), "{}")
		must(t, os.Remove(d.join("undelivered-0f-2000-01-01T00-00-00.000.log")))
		must(t, taken.Settled())
	})
}
