package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cannotWrite  = "State_Dir cannot be written: what is delivered meanwhile may be sent again after a restart"
	writtenAgain = "State_Dir is written again, with all that is remembered"
	unusable     = "a file of State_Dir cannot be used: events that it had as delivered may be sent again"
)

func file(dir string, i int) string { return (&journal{dir: dir, name: "test"}).path(i) }

func content(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatIsDoneSurvivesAKillAndWhatIsInFlightDoesNot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [b] *", "state")
	l, w := opened(t, dir, 1000)
	deliver(l, 0, 100)
	reserve(l, ids(l, 100, 200))
	// Nothing but a kill could come here, and Close writes nothing.
	before := content(t, file(dir, 1))
	l.Close()
	if !bytes.Equal(content(t, file(dir, 1)), before) {
		t.Error("Close has written")
	}
	if len(before) != headSize+100*entrySize {
		t.Errorf("the journal has %d bytes", len(before))
	}
	l, w2 := opened(t, dir, 1000)
	want(t, l, 0, 100, Done)
	want(t, l, 100, 200, New)
	w.want(t)
	w2.want(t)
	for _, name := range []string{dir, file(dir, 0), file(dir, 1)} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v %v: others can read it", info, err)
		}
	}
}

func TestATornEndIsCutOff(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, 1000)
	deliver(l, 0, 10)
	l.Close()
	for torn := 1; torn < entrySize; torn++ {
		b := content(t, file(dir, 1))
		if err := os.WriteFile(file(dir, 1), append(b, b[len(b)-torn:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		l, w := opened(t, dir, 1000)
		want(t, l, 0, 9+torn, Done)
		want(t, l, 9+torn, 1000, New)
		deliver(l, 9+torn, 10+torn)
		l.Close()
		w.want(t)
	}
}

func TestGarbageMatchesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(b []byte) []byte
		warns string
		known int
	}{
		"empty":          {func([]byte) []byte { return nil }, "", 0},
		"half a head":    {func(b []byte) []byte { return b[:headSize/2] }, unusable, 0},
		"foreign":        {func([]byte) []byte { return bytes.Repeat([]byte("foreign\n"), 100) }, unusable, 0},
		"generation 0":   {func(b []byte) []byte { b[headSize-8] = 0; return b }, unusable, 0},
		"wrong file":     {func(b []byte) []byte { b[headSize-8] = 2; return b }, unusable, 0},
		"another key":    {func(b []byte) []byte { b[headSize-10] ^= 1; return b }, "", 0},
		"zeros":          {func(b []byte) []byte { clear(b[headSize:]); return b }, "", 0},
		"noise":          {func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0x5a, 7, 200}, 4000)...) }, "", 10},
		"shifted by one": {func(b []byte) []byte { return append(b[:headSize:headSize], b[headSize+1:]...) }, "", 0},
		"one home":       {func(b []byte) []byte { return append(b, bytes.Repeat([]byte("one home for"), 1<<16)...) }, "", 10},
		"many of a home": {oneHome, "", 10},
		"a head alone":   {func(b []byte) []byte { return b[:headSize] }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, _ := opened(t, dir, 1000)
			deliver(l, 0, 10)
			l.Close()
			if err := os.WriteFile(file(dir, 1), tt.spoil(content(t, file(dir, 1))), 0o600); err != nil {
				t.Fatal(err)
			}
			l, w := opened(t, dir, 10_000)
			if tt.warns != "" {
				w.want(t, tt.warns)
			}
			if tt.known == 10 {
				want(t, l, 0, 10, Done)
			} else {
				want(t, l, 0, 10, New)
			}
			deliver(l, 0, 20)
			l.Close()
			l, w = opened(t, dir, 1000)
			want(t, l, 0, 20, Done)
			w.want(t)
		})
	}
}

func TestOfTwoLedgersTheYoungerIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		l, _ := opened(t, dir, 100)
		deliver(l, 0, 50)
		time.Sleep(minAge)
		deliver(l, 50, 51) // turns: generation 2 is file 0
		deliver(l, 51, 60)
		l.Close()
		l, _ = opened(t, other, 100)
		deliver(l, 0, 50)
		l.Close()
		if err := os.Rename(file(other, 1), file(dir, 1)); err != nil {
			t.Fatal(err)
		}
		l, w := opened(t, dir, 100)
		w.want(t, unusable)
		want(t, l, 0, 51, New)
		want(t, l, 51, 60, Done)
	})
}

func TestABigJournalIsReadFromItsEnd(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, 10_000)
	deliver(l, 0, 10_000)
	l.Close()
	l, w := opened(t, dir, 10)
	want(t, l, 10_000-2*maxWindows*10, 10_000, Done)
	want(t, l, 0, 10_000-2*maxWindows*10, New)
	w.want(t)
}

// oneHome adds entries that all belong into one line.
func oneHome(b []byte) []byte {
	for i := range uint64(1 << 17) {
		b = appendEntry(b, ID{42, i << markBits})
	}
	return b
}

// full makes the files of a ledger refuse to be written, as a full disk does, until
// the returned function is called.
func full(t *testing.T, l *Ledger) (again func()) {
	t.Helper()
	dir, files, sizes := l.journal.dir, l.journal.files, l.journal.sizes
	l.journal.dir = t.TempDir()
	for i := range files {
		if err := unix.Mknod(l.journal.path(i), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 7))); err != nil { // /dev/full
			t.Skip("no device can be made here: ", err)
		}
		f, err := os.OpenFile(l.journal.path(i), os.O_RDWR, 0)
		if err != nil {
			t.Skip("no device can be opened here: ", err)
		}
		t.Cleanup(func() { f.Close() })
		l.journal.files[i] = f
	}
	return func() { l.journal.dir, l.journal.files, l.journal.sizes = dir, files, sizes }
}

func TestAFullDiskCostsThePersistenceUntilThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, dir, 100)
		deliver(l, 0, 10)
		again := full(t, l)
		deliver(l, 10, 20)
		w.want(t, cannotWrite)
		if done, _ := l.Count(); done != 20 {
			t.Errorf("%d are remembered", done)
		}
		time.Sleep(time.Minute)
		deliver(l, 20, 50)
		deliver(l, 50, 51) // a generation has turned meanwhile
		w.want(t, cannotWrite, cannotWrite)
		want(t, l, 0, 51, Done)
		again()
		deliver(l, 51, 52)
		w.want(t) // not at each try
		time.Sleep(mendInterval)
		deliver(l, 52, 53)
		w.want(t, writtenAgain)
		if size := int64(len(content(t, file(dir, int(l.generation&1))))); size > int64(headSize+60*entrySize) {
			t.Errorf("the journal has %d bytes", size)
		}
		l.Close()
		l, w = opened(t, dir, 100)
		want(t, l, 0, 53, Done)
		w.want(t)
	})
}

func TestFilesThatBecomeReadOnlyCostThePersistenceUntilTheyAreNot(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, dir, 100)
		deliver(l, 0, 10)
		before := l.journal.files
		for i := range before {
			f, err := os.Open(file(dir, i)) // to read alone, as a file system that was made read-only allows
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			l.journal.files[i] = f
		}
		deliver(l, 10, 20)
		w.want(t, cannotWrite)
		want(t, l, 0, 20, Done)
		l.journal.files = before
		time.Sleep(mendInterval)
		deliver(l, 20, 21)
		w.want(t, writtenAgain)
		l.Close()
		l, w = opened(t, dir, 100)
		want(t, l, 0, 21, Done)
		w.want(t)
	})
}

func TestFilesThatAreDeletedAreMadeAnew(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"the folder":      os.RemoveAll,
		"moved":           func(dir string) error { return os.Rename(dir, dir+".old") },
		"a file moved":    func(dir string) error { return os.Rename(file(dir, 0), file(dir, 0)+".old") },
		"the first file":  func(dir string) error { return os.Remove(file(dir, 0)) },
		"the second file": func(dir string) error { return os.Remove(file(dir, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				l, w := opened(t, dir, 100)
				deliver(l, 0, 50)
				time.Sleep(minAge)
				deliver(l, 50, 60)
				if err := remove(dir); err != nil {
					t.Fatal(err)
				}
				deliver(l, 60, 61)
				w.want(t, writtenAgain)
				deliver(l, 61, 70)
				l.Close()
				l, w = opened(t, dir, 100)
				want(t, l, 0, 70, Done)
				w.want(t)
			})
		})
	}
}

func TestWhatCannotBeMadeAnewAtOnceIsMadeLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		l, w := opened(t, dir, 1000)
		deliver(l, 0, 10)
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(file(dir, 0), 0o700)); err != nil { // a folder in the way
			t.Fatal(err)
		}
		deliver(l, 10, 11)
		w.want(t, cannotWrite)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(mendInterval)
		deliver(l, 11, 12)
		w.want(t, writtenAgain)
		l.Close()
		l, _ = opened(t, dir, 1000)
		want(t, l, 0, 12, Done)
	})
}

func TestADiskThatIsFullAgainAndAgainDoesNotMakeTheJournalGrow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, _ := opened(t, dir, 10_000)
		deliver(l, 0, 1000)
		for i := range 20 {
			again := full(t, l)
			deliver(l, 1000+2*i, 1001+2*i)
			again()
			time.Sleep(mendInterval)
			deliver(l, 1001+2*i, 1002+2*i)
		}
		if size, most := len(content(t, file(dir, 1))), headSize+3*1040*entrySize; size > most {
			t.Errorf("the journal has %d bytes, want %d at most", size, most)
		}
		l.Close()
		l, _ = opened(t, dir, 10_000)
		want(t, l, 0, 1040, Done)
	})
}

func TestALedgerBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, _ := opened(t, dir, 100)
		deliver(l, 0, 1)
		start := time.Now()
		_, err := Open(Options{Dir: dir, Name: "test", Window: 100})
		if took := time.Since(start); err == nil || took < lockWait || took > lockWait+time.Second {
			t.Fatalf("%v after %v", err, took)
		}
		if want := "State_Dir \"" + dir + "\": another process has it open: give each process a State_Dir of its own, or wait until the other one has ended"; err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
		// One that is about to end is waited for.
		go func() {
			time.Sleep(2 * time.Second)
			l.Close()
		}()
		next, err := Open(Options{Dir: dir, Name: "test", Window: 100})
		if err != nil {
			t.Fatal(err)
		}
		want(t, next, 0, 1, Done)
		next.Close()
		// Others in the folder are no matter.
		a, _ := opened(t, dir, 100)
		b, err := Open(Options{Dir: dir, Name: "other", Window: 100})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		a.Close()
	})
}

func TestNothingIsFollowedAndNothingWaitedFor(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"a link":   func(path string) error { return os.Symlink("/dev/null", path) },
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for i := range 2 {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				if err := plant(file(dir, i)); err != nil {
					t.Fatal(err)
				}
				if _, err := Open(Options{Dir: dir, Name: "test", Window: 1}); err == nil || !strings.Contains(err.Error(), file(dir, i)) {
					t.Errorf("%v, want an error that names the file", err)
				}
			})
		}
	}
}

func TestALedgerThatIsHandedOnGoesOnInItsNewFolder(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	old, _ := opened(t, second, 100)
	deliver(old, 500, 600)
	old.Close()

	l, w := opened(t, "", 100)
	deliver(l, 0, 10)
	for _, dir := range []string{first, first + "/.", second, second + "/../" + filepath.Base(second), ""} {
		if err := l.Configure(Options{Dir: dir, Window: 200, Warn: w.warn}); err != nil {
			t.Fatal(err)
		}
		want(t, l, 0, 10, Done)
	}
	deliver(l, 10, 20)
	for _, dir := range []string{first, second} {
		other, w := opened(t, dir, 100)
		want(t, other, 0, 10, Done)
		want(t, other, 10, 20, New)
		w.want(t)
	}
	if err := l.Configure(Options{Dir: filepath.Join(file(first, 0), "x"), Window: 1, Warn: w.warn}); err == nil {
		t.Error("a folder that cannot be was taken")
	}
	want(t, l, 0, 20, Done)
	w.want(t)
}
