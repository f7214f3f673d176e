// Tests of the file and its rotation.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T, name string, maxSize int64, maxBackups int) *auditLog {
	t.Helper()
	l, err := openLog(name, maxSize, maxBackups)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.file.Close() })
	return l
}

// put adds lines and flushes.
func put(t *testing.T, l *auditLog, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := l.add([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
}

// contents of a directory, by name.
func contents(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name()+": "+string(bytes.ReplaceAll(read(t, filepath.Join(dir, e.Name())), []byte("\n"), []byte("|"))))
	}
	return all
}

func wantContents(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := contents(t, dir); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// In a bubble the time is 2000-01-01T00:00:00Z until all sleep.
func bubble(t *testing.T, test func(t *testing.T, dir string)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, dir) })
}

func TestRotationNamesFilesAsKubeAPIServerDoes(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("", 7200) // the names are in UTC wherever it runs
	t.Cleanup(func() { time.Local = local })
	bubble(t, func(t *testing.T, dir string) {
		l := open(t, filepath.Join(dir, "audit.log"), 10, 0)
		put(t, l, "one", "two", "3")
		time.Sleep(90*time.Minute + 1234567*time.Microsecond)
		put(t, l, "four")
		time.Sleep(time.Millisecond)
		put(t, l, "sixteen")
		wantContents(t, dir,
			"audit-2000-01-01T01-30-01.234.log: one|two|3|",
			"audit-2000-01-01T01-30-01.235.log: four|",
			"audit.log: sixteen|")
		if l.rotations != 2 || l.lines != 5 || l.bytes != 23 {
			t.Errorf("%d rotations, %d lines, %d bytes", l.rotations, l.lines, l.bytes)
		}
	})
}

func TestRotationsWithinAMillisecondOverwriteNothing(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		// A file that is no backup of ours, with a name that would be.
		taken := filepath.Join(dir, "audit-2000-01-01T00-00-00.002.log")
		l := open(t, filepath.Join(dir, "audit.log"), 1, 0)
		if err := os.WriteFile(taken, []byte("taken\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		put(t, l, "1", "2", "3", "4", "5")
		want := []string{
			"audit-2000-01-01T00-00-00.000.log: 1|",
			"audit-2000-01-01T00-00-00.001.log: 2|",
			"audit-2000-01-01T00-00-00.002.log: taken|",
			"audit-2000-01-01T00-00-00.003.log: 3|",
			"audit-2000-01-01T00-00-00.004.log: 4|",
		}
		wantContents(t, dir, append(want, "audit.log: 5|")...)
		// The next process is as careful.
		put(t, open(t, l.name, 1, 0), "6")
		wantContents(t, dir, append(want, "audit-2000-01-01T00-00-00.005.log: 5|", "audit.log: 6|")...)
	})
}

func TestALongLineHasAFileOfItsOwn(t *testing.T) {
	for _, long := range []int{11, 3 * bufferSize} {
		bubble(t, func(t *testing.T, dir string) {
			l := open(t, filepath.Join(dir, "audit.log"), 10, 0)
			x := strings.Repeat("x", long)
			put(t, l, x, "a", "b", x, "c")
			wantContents(t, dir,
				"audit-2000-01-01T00-00-00.000.log: "+x+"|",
				"audit-2000-01-01T00-00-00.001.log: a|b|",
				"audit-2000-01-01T00-00-00.002.log: "+x+"|",
				"audit.log: c|")
		})
	}
}

func TestMaxBackupsKeepsTheNewest(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		// Two backups, the older one first in the order of names, and files of others.
		for _, name := range []string{"audit-1999-12-31T23-59-59.998.log", "audit-1999-12-31T23-59-59.999.log",
			"2001-01-01T00-00-00.000.log", "audit-2001-01-01T00-00-00.000", "audit-notatime.log"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := open(t, filepath.Join(dir, "audit.log"), 1, 3)
		put(t, l, "1", "2", "3")
		wantContents(t, dir, "2001-01-01T00-00-00.000.log: ", "audit-1999-12-31T23-59-59.999.log: ",
			"audit-2000-01-01T00-00-00.000.log: 1|", "audit-2000-01-01T00-00-00.001.log: 2|",
			"audit-2001-01-01T00-00-00.000: ", "audit-notatime.log: ", "audit.log: 3|")
		// One that somebody else removed is no fault.
		if err := os.Remove(filepath.Join(dir, "audit-1999-12-31T23-59-59.999.log")); err != nil {
			t.Fatal(err)
		}
		put(t, l, "4", "5", "6")
		wantContents(t, dir, "2001-01-01T00-00-00.000.log: ", "audit-2000-01-01T00-00-00.002.log: 3|",
			"audit-2000-01-01T00-00-00.003.log: 4|", "audit-2000-01-01T00-00-00.004.log: 5|",
			"audit-2001-01-01T00-00-00.000: ", "audit-notatime.log: ", "audit.log: 6|")
	})
}

func TestAnExistingFileIsContinued(t *testing.T) {
	for _, tt := range []struct{ before, after string }{
		{"", "audit.log: new|"},
		{"old\n", "audit.log: old|new|"},
		{"torn", "audit.log: torn|new|"},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "audit.log")
		if err := os.WriteFile(name, []byte(tt.before), 0o640); err != nil {
			t.Fatal(err)
		}
		l := open(t, name, 0, 0)
		put(t, l, "new")
		wantContents(t, dir, tt.after)
		if l.lines != 1 || l.bytes != 4 {
			t.Errorf("%d lines, %d bytes were written", l.lines, l.bytes)
		}
	}
	bubble(t, func(t *testing.T, dir string) {
		name := filepath.Join(dir, "audit.log")
		if err := os.WriteFile(name, []byte("8 bytes."), 0o640); err != nil {
			t.Fatal(err)
		}
		put(t, open(t, name, 10, 0), "1", "2")
		wantContents(t, dir, "audit-2000-01-01T00-00-00.000.log: 8 bytes.|", "audit.log: 1|2|")
		if info, _ := os.Stat(name); info.Mode() != 0o640 {
			t.Errorf("mode %v after the rotation", info.Mode())
		}
	})
}

func TestOnlyARegularFileIsRotated(t *testing.T) {
	_, err := openLog(os.DevNull, 10, 0)
	if want := "/dev/null: not a regular file, which alone can be rotated"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	put(t, open(t, os.DevNull, 0, 0), "1")
}

func fileSize(t *testing.T, name string) int {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

// A reader that looks after each write sees whole lines.
func TestEachWriteIsOfWholeLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, name, 0, 0)
	seen, line, writes := 0, strings.Repeat("x", 999)+"\n", 0
	for i := range 1000 {
		if err := l.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if size := fileSize(t, name); size != seen {
			writes, seen = writes+1, size
			if size%len(line) != 0 || i*len(line)-size > bufferSize {
				t.Fatalf("%d bytes of %d lines are in the file", size, i+1)
			}
		}
	}
	if want := 1000 * len(line) / (bufferSize / len(line) * len(line)); writes != want {
		t.Errorf("%d writes, want %d", writes, want)
	}
}

func TestALineThatDoesNotFitIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "audit.log")
	l := open(t, name, 0, 0)
	put(t, l, "1")
	restrictFileSize(t, 100)
	err := l.add([]byte(strings.Repeat("x", 69) + "\n"))
	err = errors.Join(err, l.add([]byte(strings.Repeat("y", 69)+"\n")), l.flush())
	if err == nil || err.Error() != "write "+name+": file too large" {
		t.Errorf("error %v", err)
	}
	wantContents(t, dir, "audit.log: 1|"+strings.Repeat("x", 69)+"|")
	if l.lines != 2 || l.bytes != 72 {
		t.Errorf("%d lines, %d bytes", l.lines, l.bytes)
	}
}

// restrictFileSize makes writes beyond a size fail until the test ends, as on a full
// disk.
func restrictFileSize(t *testing.T, bytes uint64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "1": "1", "500k": "500000", "100M": "100000000", "1G": "1000000000",
		"512Ki": "524288", "10Mi": "10485760", "2Gi": "2147483648", "1000000000000": "1000000000000",
		"": "error", "M": "error", "-1": "error", "1.5M": "error", "10MB": "error", "1kM": "error", "1m": "error",
		"1001G": "error", "1000000000001": "error", "9223372036854775807Gi": "error",
	} {
		var s size
		got := "error"
		if err := s.Set(text); err == nil {
			got = fmt.Sprint(int(s))
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
