// What the tests share: a folder, its contents, and a disk that fails.

package deadletter

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path, func(name string, bytes int64) { t.Errorf("%s with %d bytes was removed", name, bytes) })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// In a bubble the time is 2000-01-01T00:00:00Z until all sleep.
func bubble(t *testing.T, test func(t *testing.T, d *Dir)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dead")
	synctest.Test(t, func(t *testing.T) { test(t, open(t, path)) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var skipTime = regexp.MustCompile(`"time":"[^"]+"`)

// contents of the folder by name, with a bar for each line feed, and without the
// times in skipped.log. Empty files are left out.
func contents(t *testing.T, path string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	must(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(path, e.Name()))
		must(t, err)
		if len(b) > 0 {
			b = skipTime.ReplaceAll(b, []byte(`"time":""`))
			all = append(all, e.Name()+": "+string(bytes.ReplaceAll(b, []byte("\n"), []byte("|"))))
		}
	}
	return all
}

func wantContents(t *testing.T, d *Dir, want ...string) {
	t.Helper()
	if got := contents(t, d.path); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func put(t *testing.T, d *Dir, name, text string) {
	t.Helper()
	must(t, os.WriteFile(d.join(name), []byte(text), 0o600))
}

// readAll reads all that is left of a file that is taken up.
func readAll(t *testing.T, taken *Taken) (events []string) {
	t.Helper()
	for {
		event, err := taken.Next()
		if err == io.EOF {
			return events
		}
		must(t, err)
		events = append(events, string(event))
	}
}

// takeUp takes a file up that is there and free.
func takeUp(t *testing.T, d *Dir, name string) *Taken {
	t.Helper()
	taken, err := d.TakeUp(name)
	must(t, err)
	if taken == nil {
		t.Fatalf("%s is not taken up", name)
	}
	return taken
}

// wantNotTakenUp asserts that the file is gone, or somebody's.
func wantNotTakenUp(t *testing.T, d *Dir, name string) {
	t.Helper()
	if taken, err := d.TakeUp(name); taken != nil || err != nil {
		t.Errorf("%s: TakeUp returned %v, %v, want neither", name, taken, err)
	}
}

func undelivered(t *testing.T, d *Dir, id string) []string {
	t.Helper()
	names, err := d.Undelivered(id)
	must(t, err)
	return names
}

// undeliveredEvents reads all files of an id, and gives them back.
func undeliveredEvents(t *testing.T, d *Dir, id string) (events []string) {
	t.Helper()
	for _, name := range undelivered(t, d, id) {
		taken := takeUp(t, d, name)
		events = append(events, readAll(t, taken)...)
		taken.Close()
	}
	return events
}

func wantEqual(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// faults are what a disk does wrong, nil: nothing.
type faults struct {
	open, truncate, sync, read error
	room                       int // bytes that can be written before write fails
	write                      error
}

// breakDisk makes the disk fail from now on, until the faults are changed.
func breakDisk(d *Dir) *faults {
	faults := &faults{}
	open := d.open
	d.open = func(path string, flags int) (file, error) {
		if faults.open != nil {
			return nil, faults.open
		}
		f, err := open(path, flags)
		if err != nil {
			return nil, err
		}
		return &faultyFile{f, faults}, nil
	}
	return faults
}

type faultyFile struct {
	file
	faults *faults
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if f.faults.write == nil || len(b) <= f.faults.room {
		f.faults.room -= len(b)
		return f.file.Write(b)
	}
	n, err := f.file.Write(b[:f.faults.room])
	f.faults.room = 0
	if err != nil {
		return n, err
	}
	return n, f.faults.write
}

func (f *faultyFile) Truncate(size int64) error {
	if f.faults.truncate != nil {
		return f.faults.truncate
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if f.faults.sync != nil {
		return f.faults.sync
	}
	return f.file.Sync()
}

func (f *faultyFile) Read(b []byte) (int, error) {
	if f.faults.read != nil {
		return 0, f.faults.read
	}
	return f.file.Read(b)
}
