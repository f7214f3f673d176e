package ledger

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// This file is the journal: two files in State_Dir, one for each generation, that take
// turns. Each begins with a head: what it is, the key of the identities, and the number
// of its generation. Entries follow, of 12 bytes: the ID's first word and the 29 bits of
// the second one that the table keeps. What is no entry of this ledger matches no event.

const (
	magic     = "out_k8saudit ledger 1\n\x00\x00"
	headSize  = len(magic) + 32 + 8
	entrySize = 12
)

// lockWait is how long the files may stay another process's: one that is about to end.
const lockWait = 5 * time.Second

// mendInterval is how often writing is tried again after the disk has refused.
const mendInterval = 10 * time.Second

func appendEntry(to []byte, id ID) []byte {
	to = binary.LittleEndian.AppendUint64(to, id[0])
	return binary.LittleEndian.AppendUint32(to, secondOf(id))
}

// journal is for one goroutine at a time.
type journal struct {
	dir, name  string
	key        [32]byte
	generation uint64 // whose file is written
	wanted     uint64 // the table's, which is another one after a disk has refused
	files      [2]*os.File
	sizes      [2]int64 // where the next entry goes; below headSize: the file has no head

	incomplete bool // it lacks what a disk has refused
	nextTry    time.Time
}

func (j *journal) path(i int) string {
	return filepath.Join(j.dir, fmt.Sprintf("ledger-%s.%d", j.name, i))
}

// openJournal opens the files, and makes them and the folder where they are missing.
// The first one is locked: a ledger is one process's.
func openJournal(dir, name string) (*journal, error) {
	j := &journal{dir: dir, name: name}
	if err := j.openFiles(); err != nil {
		j.close()
		return nil, fmt.Errorf("State_Dir %q: %w", dir, err)
	}
	return j, nil
}

func (j *journal) openFiles() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	end := time.Now().Add(lockWait)
	err := j.openFile(0)
	for errors.Is(err, errLocked) && time.Now().Before(end) {
		time.Sleep(100 * time.Millisecond)
		err = j.openFile(0)
	}
	if err != nil {
		return err
	}
	return j.openFile(1)
}

var errLocked = errors.New("another process has it open: give each process a State_Dir of its own, or wait until the other one has ended")

// openFile opens a file, makes it if it is missing, and locks the first one.
func (j *journal) openFile(i int) error {
	// Nothing is followed or waited for: whatever else stands there is refused.
	f, err := os.OpenFile(j.path(i), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file: remove it", j.path(i))
	case i == 0:
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
			err = errLocked
		}
	}
	if err != nil {
		f.Close()
		return err
	}
	j.files[i] = f
	return nil
}

func (j *journal) close() {
	for i, f := range j.files {
		if f != nil {
			f.Close()
			j.files[i] = nil
		}
	}
}

// begin takes up what the heads of the files say: the key and the younger generation.
// Where there is none, key and generation are those given. Files that are not empty and
// yet of no use are emptied, and damaged says why. A file that cannot be read stays as it
// is: then begin fails.
func (j *journal) begin(key *[32]byte, generation *uint64) (damaged []error, err error) {
	var keys [2][32]byte
	var generations [2]uint64 // 0: of no use
	for i, f := range j.files {
		head := make([]byte, headSize)
		n, err := f.ReadAt(head, 0)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if n == 0 {
			continue
		}
		g := binary.LittleEndian.Uint64(head[headSize-8:])
		switch {
		case n < headSize || string(head[:len(magic)]) != magic || g == 0 || g > 1<<62 || g&1 != uint64(i):
			damaged = append(damaged, fmt.Errorf("%s does not begin as a ledger does", f.Name()))
			continue
		}
		keys[i], generations[i] = [32]byte(head[len(magic):]), g
	}
	younger := 0
	if generations[1] > generations[0] {
		younger = 1
	}
	older := 1 - younger
	if generations[older] > 0 && keys[older] != keys[younger] {
		damaged = append(damaged, fmt.Errorf("%s is of another ledger than %s", j.files[older].Name(), j.files[younger].Name()))
		generations[older] = 0
	}
	if generations[younger] > 0 {
		*key, *generation = keys[younger], generations[younger]
	}
	j.key, j.generation, j.wanted = *key, *generation, *generation
	for i, g := range generations {
		if g > 0 {
			j.sizes[i] = int64(headSize)
		} else {
			_ = j.files[i].Truncate(0) // so that it is told once; an append does so too
		}
	}
	return damaged, nil
}

// read calls do for the last entries in the file of the generation, limit of them at most,
// for a window may have been made smaller. It cuts off what is no whole entry.
func (j *journal) read(generation uint64, limit int, do func(ID)) error {
	i := generation & 1
	f := j.files[i]
	if j.sizes[i] == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	entries := (info.Size() - int64(headSize)) / entrySize
	j.sizes[i] = int64(headSize) + entries*entrySize
	from := int64(headSize) + max(0, entries-int64(limit))*entrySize
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, j.sizes[i]-from), 1<<20)
	var b [entrySize]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		id := ID{binary.LittleEndian.Uint64(b[:]), uint64(binary.LittleEndian.Uint32(b[8:]))}
		if id != (ID{}) { // a hole that a power failure has left
			do(id)
		}
	}
}

// append writes entries to the file of the generation. What is not written whole is
// overwritten by what comes next.
func (j *journal) append(entries []byte) error {
	i := j.generation & 1
	if j.sizes[i] < int64(headSize) {
		if err := j.writeHead(j.generation); err != nil {
			return err
		}
	}
	n, err := j.files[i].WriteAt(entries, j.sizes[i])
	j.sizes[i] += int64(n - n%entrySize)
	return err
}

// writeHead makes the file of a generation anew, with nothing in it.
func (j *journal) writeHead(generation uint64) error {
	i := generation & 1
	j.sizes[i] = 0
	if err := j.files[i].Truncate(0); err != nil {
		return err
	}
	head := append(append(make([]byte, 0, headSize), magic...), j.key[:]...)
	head = binary.LittleEndian.AppendUint64(head, generation)
	if _, err := j.files[i].WriteAt(head, 0); err != nil {
		return err
	}
	j.sizes[i] = int64(headSize)
	return nil
}

// turn goes on with the file of another generation, whatever it had. After an error of
// the append before, it does not: what has moved may be in that file alone.
func (j *journal) turn(generation uint64, err error) error {
	j.wanted = generation
	if err != nil {
		return err
	}
	j.generation = generation
	return j.writeHead(generation)
}

// restart makes both files anew, with these entries.
func (j *journal) restart(key [32]byte, generation uint64, entries []byte) error {
	j.key, j.generation, j.wanted = key, generation, generation
	j.sizes = [2]int64{}
	if err := j.files[(generation+1)&1].Truncate(0); err != nil {
		return err
	}
	return j.append(entries)
}

// mend is called after each append, with its error. It notices files that were deleted or
// moved away, or that lack something, and as soon as that is possible everything is
// written again. It returns what is to be said of that.
func (j *journal) mend(now time.Time, err error, everything func() []byte) (w warning, say bool) {
	whole := err == nil && !j.incomplete && !j.isGone(0) && !j.isGone(1)
	if whole || err == nil && now.Before(j.nextTry) {
		return w, false
	}
	if !now.Before(j.nextTry) {
		j.nextTry = now.Add(mendInterval)
		if err = j.rewrite(everything()); err == nil {
			j.incomplete = false
			return warning{"State_Dir is written again, with all that is remembered", nil}, true
		}
	}
	j.incomplete = true
	return warning{"State_Dir cannot be written: what is delivered meanwhile may be sent again after a restart", []any{"error", err}}, true
}

// isGone says whether a file is no longer where it belongs.
func (j *journal) isGone(i int) bool {
	var here, there unix.Stat_t
	return j.files[i] == nil || unix.Fstat(int(j.files[i].Fd()), &here) != nil ||
		unix.Lstat(j.path(i), &there) != nil || here.Ino != there.Ino || here.Dev != there.Dev
}

// rewrite makes the files that are gone anew and writes everything into that of the
// generation.
func (j *journal) rewrite(entries []byte) error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	for i := range j.files {
		if !j.isGone(i) {
			continue
		}
		if j.files[i] != nil {
			j.files[i].Close()
			j.files[i] = nil
		}
		j.sizes[i] = 0
		if err := j.openFile(i); err != nil {
			return err
		}
		if err := j.files[i].Truncate(0); err != nil {
			return err
		}
	}
	i := j.wanted & 1
	if j.generation != j.wanted || j.sizes[i] > 2*int64(len(entries)) { // a file that has it all twice begins anew
		if err := j.turn(j.wanted, nil); err != nil {
			return err
		}
	}
	before := j.sizes[i]
	err := j.append(entries)
	if err != nil && before > 0 {
		j.sizes[i] = before
		_ = j.files[i].Truncate(before) // a full disk must not be filled with parts of it
	}
	return err
}
