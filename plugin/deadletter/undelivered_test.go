// Tests of undelivered events: kept in files, taken up by one, removed or given back.

package deadletter

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
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

// eachAfter calls before with the number of events that were passed on, before each
// and at the end.
func eachAfter(before func(n int), events ...string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		n := 0
		for e := range each(events...) {
			if before(n); !yield(e) {
				return
			}
			n++
		}
		before(n)
	}
}

func keep(t *testing.T, d *Dir, id string, events ...string) {
	t.Helper()
	if n, err := d.Keep(id, each(events...)); n != len(events) || err != nil {
		t.Fatalf("%d of %d events kept: %v", n, len(events), err)
	}
}

// firstFile is the name of the first file that is kept for 0f in a bubble.
const firstFile = "undelivered-0f-2000-01-01T00-00-00.000.log"

func TestKeptEventsComeBackInOrderUntilTheirFileIsRemoved(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, d *Dir) {
		long := `{"x":"` + strings.Repeat("x", 3<<20) + `"}`
		keep(t, d, "0f", `{"n":1}`, "{\n\"n\":2}", long)
		time.Sleep(time.Hour)
		keep(t, d, "0f", `{"n":3}`)
		keep(t, d, "0f", `{"n":4}`)
		keep(t, d, "0f")
		all := []string{
			`undelivered-0f-2000-01-01T00-00-00.000.log: {"n":1}|{ "n":2}|` + long + `|`,
			`undelivered-0f-2000-01-01T01-00-00.000.log: {"n":3}|`,
			`undelivered-0f-2000-01-01T01-00-00.001.log: {"n":4}|`,
		}
		wantContents(t, d, all...)
		wantEqual(t, undeliveredEvents(t, d, "0f"), `{"n":1}`, `{ "n":2}`, long, `{"n":3}`, `{"n":4}`)
		wantContents(t, d, all...)

		names := undelivered(t, d, "0f")
		taken := takeUp(t, d, names[1])
		wantEqual(t, readAll(t, taken), `{"n":3}`)
		must(t, taken.Remove())
		wantContents(t, d, all[0], all[2])
		wantNotTakenUp(t, d, names[1])
		wantEqual(t, undelivered(t, d, "0f"), names[0], names[2])
	})
}

func TestFilesAreSplitAtTheirLimit(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		d.limits.file = 16
		keep(t, d, "0f", `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"larger than":"a file"}`, `{"n":4}`, `{"n":56}`, `{"n":7890123456}`)
		wantContents(t, d,
			`undelivered-0f-2000-01-01T00-00-00.000.log: {"n":1}|{"n":2}|`,
			`undelivered-0f-2000-01-01T00-00-00.001.log: {"n":3}|`,
			`undelivered-0f-2000-01-01T00-00-00.002.log: {"larger than":"a file"}|`,
			`undelivered-0f-2000-01-01T00-00-00.003.log: {"n":4}|`,
			`undelivered-0f-2000-01-01T00-00-00.004.log: {"n":56}|`,
			`undelivered-0f-2000-01-01T00-00-00.005.log: {"n":7890123456}|`)
	})
}

func TestAFileIs64MBAtMost(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	event := `{"x":"` + strings.Repeat("x", 1<<20-9) + `"}` // with its line feed 1 MiB
	keep(t, d, "0f", slices.Repeat([]string{event}, 65)...)
	var sizes []int64
	for _, name := range undelivered(t, d, "0f") {
		info, err := os.Stat(d.join(name))
		must(t, err)
		sizes = append(sizes, info.Size())
	}
	if !slices.Equal(sizes, []int64{64 << 20, 1 << 20}) {
		t.Errorf("files of %d bytes", sizes)
	}
}

func TestOutputsHaveTheirOwnFiles(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", `{"of":"0f"}`)
		keep(t, d, "0f1", `{"of":"0f1"}`)
		keep(t, d, "f", `{"of":"f"}`)
		for _, id := range []string{"0f", "f", "0f1"} {
			wantEqual(t, undeliveredEvents(t, d, id), `{"of":"`+id+`"}`)
		}
		wantEqual(t, undelivered(t, d, "0"))
		for _, id := range []string{"", "0F", "a/b", "..", "a-1", strings.Repeat("a", 65)} {
			if n, err := d.Keep(id, each("{}")); n != 0 || err == nil {
				t.Errorf("Keep took the id %q", id)
			}
			if _, err := d.Undelivered(id); err == nil {
				t.Errorf("Undelivered took the id %q", id)
			}
		}
		keep(t, d, strings.Repeat("a", 64), "{}")
	})
}

// Owners of the same files, each with a Dir of its own as another process has, meet
// at every step: at the listing, the opening, and the removal.
func TestEachFileHasOneOwner(t *testing.T) {
	t.Parallel()
	const owners, files = 8, 20
	path := filepath.Join(t.TempDir(), "dead")
	d := open(t, path)
	d.limits.file = 1
	var events []string
	for n := range files {
		events = append(events, fmt.Sprintf(`{"n":%d}`, 100+n))
	}
	keep(t, d, "0f", events...)
	var mu sync.Mutex
	var got []string
	var wg sync.WaitGroup
	for range owners {
		d := open(t, path)
		wg.Go(func() {
			names, err := d.Undelivered("0f")
			if err != nil {
				t.Error(err)
			}
			for _, name := range names {
				taken, err := d.TakeUp(name)
				if err != nil {
					t.Error(err)
				}
				if taken == nil {
					continue
				}
				read := readAll(t, taken)
				mu.Lock()
				got = append(got, read...)
				mu.Unlock()
				if err := taken.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	wantEqual(t, got, events...)
	wantContents(t, d)
}

func TestAFileThatIsGivenBackIsTakenUpFromItsBeginning(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", `{"n":1}`, `{"n":2}`)
		taken := takeUp(t, d, firstFile)
		wantNotTakenUp(t, d, firstFile)
		event, err := taken.Next()
		must(t, err)
		wantEqual(t, []string{string(event)}, `{"n":1}`)
		taken.Close()
		taken.Close()
		if _, err := taken.Next(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Next after Close: %v", err)
		}
		taken = takeUp(t, d, firstFile)
		wantEqual(t, readAll(t, taken), `{"n":1}`, `{"n":2}`)
		must(t, taken.Remove())
		taken.Close()
		wantContents(t, d)
	})
}

func TestOnlyAFileThatWasReadToItsEndIsRemoved(t *testing.T) {
	for name, before := range map[string]func(*Taken){
		"nothing read": func(*Taken) {},
		"all but the end read": func(taken *Taken) {
			for range 2 {
				_, _ = taken.Next()
			}
		},
		"closed": func(taken *Taken) {
			for range 3 {
				_, _ = taken.Next()
			}
			taken.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *Dir) {
				keep(t, d, "0f", `{"n":1}`, `{"n":2}`)
				taken := takeUp(t, d, firstFile)
				before(taken)
				if err := taken.Remove(); err == nil {
					t.Error("Remove returned no error")
				}
				wantEqual(t, undeliveredEvents(t, d, "0f"), `{"n":1}`, `{"n":2}`)
			})
		})
	}
}

func TestNothingIsTakenUpBeforeItsFileIsFinished(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		d.limits.file = 16
		n, err := d.Keep("0f", func(yield func([]byte) bool) {
			yield([]byte(`{"n":1}`))
			wantNotTakenUp(t, d, firstFile)
			yield([]byte(`{"n":2}`))
			wantNotTakenUp(t, d, firstFile)
			yield([]byte(`{"n":3}`))
			names := undelivered(t, d, "0f")
			taken := takeUp(t, d, names[0])
			wantEqual(t, readAll(t, taken), `{"n":1}`, `{"n":2}`)
			must(t, taken.Remove())
			wantNotTakenUp(t, d, names[1])
		})
		if n != 3 || err != nil {
			t.Error(n, err)
		}
		wantEqual(t, undeliveredEvents(t, d, "0f"), `{"n":3}`)
	})
}

func TestALineThatIsNoEventGoesToSkippedLog(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	d.limits.line = 20
	second := strings.Replace(firstFile, "000.log", "001.log", 1)
	put(t, d, firstFile, strings.Join([]string{
		`{"n":1}`, `{"n"`, "", " \r", "[1]", `"{}"`, `{"x":"longer than is read"}`, `{"a":"read whole?"}  x`,
		strings.Repeat(" ", 20) + "x", "\t {\"n\" : 2} \t\r", "\v{}", "{} {}", "\x00\x00{}", "{\"n\":3}",
	}, "\n"))
	put(t, d, second, "{\"n\":4}\r\n{\"n\":")
	line := func(file, n, raw string) string {
		return `{"time":"","tag":"","reason":"no event in a line of ` + file + `","bytes":` + n + `,"raw":"` + raw + `"}|`
	}
	skipped := "skipped.log: " + line(firstFile, "4", `{\"n\"`) + line(firstFile, "3", "[1]") + line(firstFile, "4", `\"{}\"`) +
		line(firstFile, "27", `{\"x\":\"longer than is`) + line(firstFile, "22", `{\"a\":\"read whole?\"} `) +
		line(firstFile, "21", strings.Repeat(" ", 20)) + line(firstFile, "3", `\u000b{}`) + line(firstFile, "5", "{} {}") +
		line(firstFile, "4", `\u0000\u0000{}`)

	taken := takeUp(t, d, firstFile)
	wantEqual(t, readAll(t, taken), `{"n":1}`, `{"n" : 2}`, `{"n":3}`)
	if n := taken.Unreadable(); n != 9 {
		t.Errorf("%d unreadable lines", n)
	}
	must(t, taken.Remove())
	wantContents(t, d, skipped, second+": {\"n\":4}\r|{\"n\":")

	taken = takeUp(t, d, second)
	wantEqual(t, readAll(t, taken), `{"n":4}`)
	if n := taken.Unreadable(); n != 1 {
		t.Errorf("%d unreadable lines", n)
	}
	must(t, taken.Remove())
	wantContents(t, d, skipped+line(second, "5", `{\"n\":`))
}

// A file of two events is cut at every byte, as a crash does.
func TestATornFileGivesItsWholeLines(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	const text = `{"n":1,"s":"}"}` + "\n" + `{"n":2}` + "\n"
	for cut := range len(text) + 1 {
		put(t, d, firstFile, text[:cut])
		var want []string
		if cut >= 15 {
			want = append(want, `{"n":1,"s":"}"}`)
		}
		if cut >= 23 {
			want = append(want, `{"n":2}`)
		}
		torn := 0
		if cut != 0 && cut != 15 && cut != 16 && cut < 23 {
			torn = 1
		}
		taken := takeUp(t, d, firstFile)
		wantEqual(t, readAll(t, taken), want...)
		if n := taken.Unreadable(); n != torn {
			t.Errorf("cut at %d: %d unreadable lines", cut, n)
		}
		must(t, taken.Remove())
	}
}

func TestWhatIsPlantedUnderAFilesNameKeepsNoOtherBack(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", `{"n":1}`)
		planted := []string{
			"undelivered-0f-2000-01-01T00-00-01.000.log", "undelivered-0f-2000-01-01T00-00-02.000.log",
			"undelivered-0f-2000-01-01T00-00-03.000.log", "undelivered-0f-2000-01-01T00-00-04.000.log",
		}
		target := filepath.Join(t.TempDir(), "target")
		must(t, os.WriteFile(target, []byte("{}\n"), 0o600))
		must(t, os.Symlink(target, d.join(planted[0])))
		must(t, os.Symlink("missing", d.join(planted[1])))
		must(t, syscall.Mkfifo(d.join(planted[2]), 0o600))
		must(t, os.Mkdir(d.join(planted[3]), 0o700))
		put(t, d, "undelivered-0f-notatime.log", "{}\n")
		put(t, d, firstFile+".swp", "{}\n")
		keep(t, d, "0f", `{"n":2}`)

		names := undelivered(t, d, "0f")
		last := "undelivered-0f-2000-01-01T00-00-04.001.log"
		wantEqual(t, names, slices.Concat([]string{firstFile}, planted, []string{last})...)
		for _, name := range planted {
			if taken, err := d.TakeUp(name); taken != nil || err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got %v, %v", name, taken, err)
			}
		}
		for i, name := range []string{firstFile, last} {
			taken := takeUp(t, d, name)
			wantEqual(t, readAll(t, taken), fmt.Sprintf(`{"n":%d}`, i+1))
			must(t, taken.Remove())
		}
		wantEqual(t, undelivered(t, d, "0f"), planted...)
	})
}

func TestKeepReturnsHowManyAreOnTheDisk(t *testing.T) {
	events := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":5}`}
	for _, tt := range []struct {
		name  string
		set   func(*Dir, *faults)
		at    int // how many events are passed on before set
		kept  int
		files int
		err   error
	}{
		// Two events fit into a file.
		{"disk full", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 12 }, 0, 1, 1, syscall.ENOSPC},
		{"no byte left", func(_ *Dir, f *faults) { f.write = syscall.ENOSPC }, 0, 0, 0, syscall.ENOSPC},
		{"disk full in the second file", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 28 }, 0, 3, 2, syscall.ENOSPC},
		{"disk full at a line's end", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 24 }, 0, 3, 2, syscall.ENOSPC},
		{"disk full after a file", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 16 }, 0, 2, 1, syscall.ENOSPC},
		{"disk full in the last file", func(_ *Dir, f *faults) { f.write, f.room = syscall.ENOSPC, 35 }, 0, 4, 2, syscall.ENOSPC},
		{"disk full and no truncate", func(_ *Dir, f *faults) { f.write, f.room, f.truncate = syscall.ENOSPC, 28, syscall.EIO }, 0, 3, 2, syscall.ENOSPC},
		{"limit of all files", func(d *Dir, _ *faults) { d.limits.undelivered = 31 }, 0, 3, 2, ErrFull},
		{"limit of all files at a file's end", func(d *Dir, _ *faults) { d.limits.undelivered = 32 }, 0, 4, 2, ErrFull},
		{"no event fits into the limit", func(d *Dir, _ *faults) { d.limits.undelivered = 7 }, 0, 0, 0, ErrFull},
		{"too long", func(d *Dir, _ *faults) { d.limits.line = 6 }, 1, 1, 1, ErrTooLong},
		{"read-only", func(_ *Dir, f *faults) { f.open = syscall.EROFS }, 0, 0, 0, syscall.EROFS},
		{"no second file", func(_ *Dir, f *faults) { f.open = syscall.EMFILE }, 2, 2, 1, syscall.EMFILE},
		{"the folder goes", func(d *Dir, _ *faults) { d.path += "/away" }, 2, 2, 1, fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *Dir) {
				path, f := d.path, breakDisk(d)
				d.limits.file = 16
				n, err := d.Keep("0f", eachAfter(func(n int) {
					if n == tt.at {
						tt.set(d, f)
					}
				}, events...))
				if n != tt.kept || !errors.Is(err, tt.err) {
					t.Errorf("kept %d, want %d: %v", n, tt.kept, err)
				}
				if err == nil || strings.Contains(err.Error(), `"n"`) {
					t.Errorf("the error is %v", err)
				}
				torn := f.truncate != nil
				*f, d.limits, d.path = faults{}, defaultLimits, path
				wantEqual(t, undeliveredEvents(t, d, "0f"), events[:tt.kept]...)
				if n := len(undelivered(t, d, "0f")); n != tt.files {
					t.Errorf("%d files, want %d", n, tt.files)
				}
				if skipped, err := os.ReadFile(d.join(skippedLog)); err != nil || (len(skipped) > 0) != torn {
					t.Errorf("skipped.log holds %q, %v", skipped, err)
				}
			})
		})
	}
}

func TestTheLimitIsThatOfAllFilesOfAnOutput(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		d.limits.file, d.limits.undelivered = 8, 24
		keep(t, d, "0f", `{"n":1}`, `{"n":2}`)
		keep(t, d, "0e", `{"n":1}`, `{"n":2}`, `{"n":3}`)
		if n, err := d.Keep("0f", each(`{"n":3}`, `{"n":4}`)); n != 1 || !errors.Is(err, ErrFull) {
			t.Errorf("kept %d: %v", n, err)
		}
		wantEqual(t, undeliveredEvents(t, d, "0f"), `{"n":1}`, `{"n":2}`, `{"n":3}`)
		taken := takeUp(t, d, firstFile)
		if n, err := d.Keep("0f", each(`{"n":4}`)); n != 0 || !errors.Is(err, ErrFull) {
			t.Errorf("kept %d: %v", n, err)
		}
		readAll(t, taken)
		must(t, taken.Remove())
		keep(t, d, "0f", `{"n":4}`)
	})
}

func TestEventsWhoseSyncFailedAreNotCountedAndStay(t *testing.T) {
	events := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":5}`}
	for _, tt := range []struct{ at, kept, there int }{{1, 0, 2}, {2, 0, 2}, {3, 2, 4}, {5, 4, 5}} {
		bubble(t, func(t *testing.T, d *Dir) {
			f := breakDisk(d)
			d.limits.file = 16
			n, err := d.Keep("0f", eachAfter(func(n int) {
				if n == tt.at {
					f.sync = syscall.EIO
				}
			}, events...))
			if n != tt.kept || !errors.Is(err, syscall.EIO) {
				t.Errorf("kept %d, want %d: %v", n, tt.kept, err)
			}
			wantEqual(t, undeliveredEvents(t, d, "0f"), events[:tt.there]...)
		})
	}
}

func TestEachFinishedFileIsSynced(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		d.limits.file = 8
		var synced, closed atomic.Int32
		open := d.open
		d.open = func(path string, flags int) (file, error) {
			f, err := open(path, flags)
			return &countingFile{f, &synced, &closed}, err
		}
		n, err := d.Keep("0f", func(yield func([]byte) bool) {
			for i := range int32(4) {
				yield([]byte(`{"n":1}`))
				if synced.Load() != i || closed.Load() != i {
					t.Errorf("with event %d %d files are synced and %d closed", i, synced.Load(), closed.Load())
				}
			}
		})
		if n != 4 || err != nil || synced.Load() != 4 || closed.Load() != 4 {
			t.Errorf("%d kept, %d synced, %d closed, %v", n, synced.Load(), closed.Load(), err)
		}
	})
}

// countingFile counts the calls of Sync, and those of Close that come after one.
type countingFile struct {
	file
	synced, closed *atomic.Int32
}

func (f *countingFile) Sync() error { f.synced.Add(1); return f.file.Sync() }

func (f *countingFile) Close() error {
	if f.closed.Add(1) > f.synced.Load() {
		panic("closed before it was synced")
	}
	return f.file.Close()
}

func TestAFileThatCannotBeReadStays(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		f := breakDisk(d)
		keep(t, d, "0f", "{}")
		taken := takeUp(t, d, firstFile)
		f.read = syscall.EIO
		for range 2 {
			if _, err := taken.Next(); !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v", err)
			}
			f.read = nil
		}
		if err := taken.Remove(); err == nil {
			t.Error("Remove returned no error")
		}
		wantEqual(t, undeliveredEvents(t, d, "0f"), "{}")
	})
}

func TestAFileStaysUntilAllItsBrokenLinesAreInSkippedLog(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		f := breakDisk(d)
		put(t, d, firstFile, "{\n{}\n[")
		line := func(raw string) string {
			return `{"time":"","tag":"","reason":"no event in a line of ` + firstFile + `","bytes":1,"raw":"` + raw + `"}|`
		}
		taken := takeUp(t, d, firstFile)
		f.write = syscall.ENOSPC
		if _, err := taken.Next(); err != nil {
			t.Error(err)
		}
		f.write = nil
		wantEqual(t, readAll(t, taken))
		if err := taken.Remove(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
		wantContents(t, d, "skipped.log: "+line("["), firstFile+": {|{}|[")

		taken = takeUp(t, d, firstFile)
		wantEqual(t, readAll(t, taken), "{}")
		must(t, taken.Remove())
		wantContents(t, d, "skipped.log: "+line("[")+line("{")+line("["))
	})
}

func TestAFileThatSomebodyDeletedIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", "{}")
		taken := takeUp(t, d, firstFile)
		wantEqual(t, readAll(t, taken), "{}")
		must(t, os.Remove(d.join(firstFile)))
		must(t, taken.Remove())
	})
}

func TestAFileThatCannotBeRemovedIsTakenUpAgain(t *testing.T) {
	bubble(t, func(t *testing.T, d *Dir) {
		keep(t, d, "0f", "{}")
		taken := takeUp(t, d, firstFile)
		readAll(t, taken)
		must(t, os.Rename(d.path, d.path+".away"))
		if err := taken.Remove(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Remove: %v", err)
		}
		if _, err := d.Undelivered("0f"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Undelivered: %v", err)
		}
		if _, err := d.TakeUp(firstFile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("TakeUp: %v", err)
		}
		must(t, os.Rename(d.path+".away", d.path))
		wantEqual(t, undeliveredEvents(t, d, "0f"), "{}")
	})
}

func TestAnEmptyFileIsRemoved(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	put(t, d, firstFile, "")
	taken := takeUp(t, d, firstFile)
	if event, err := taken.Next(); err != io.EOF {
		t.Errorf("got %q, %v", event, err)
	}
	must(t, taken.Remove())
	wantEqual(t, undelivered(t, d, "0f"))
}
