package ledger

import (
	"os"
	"testing"
)

// FuzzJournal starts with files of any content: whatever it is, nothing that is not
// this ledger's own counts as done, and what is done from then on is remembered.
func FuzzJournal(f *testing.F) {
	dir := f.TempDir()
	l, err := Open(Options{Dir: dir, Name: "test", Window: 100})
	if err != nil {
		f.Fatal(err)
	}
	deliver(l, 0, 20)
	l.Close()
	own, err := os.ReadFile(file(dir, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own, []byte{})
	f.Add(own, own)
	f.Add(own[:headSize], own)
	f.Add([]byte("garbage"), own[:headSize+7])
	f.Fuzz(func(t *testing.T, even, odd []byte) {
		dir := t.TempDir()
		for i, b := range [][]byte{even, odd} {
			if err := os.WriteFile(file(dir, i), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, _ := opened(t, dir, 100)
		want(t, l, 1000, 1100, New)
		deliver(l, 1000, 1100)
		want(t, l, 1000, 1100, Done)
		l.Close()
		l, w := opened(t, dir, 100)
		want(t, l, 1000, 1100, Done)
		w.want(t)
		l.Close()
	})
}
