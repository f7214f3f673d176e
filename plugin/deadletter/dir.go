// This file is the folder: how it is opened, and how it is locked.

package deadletter

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is a folder for what cannot be delivered. Its methods may be called from
// several goroutines. No file is open between two calls, so there is nothing to
// close, and a folder that was away for a time is used again as soon as it is back.
type Dir struct {
	path    string
	removed func(name string, bytes int64)
	limits  limits
	open    func(path string, flags int) (file, error) // for tests, which let it fail
}

// limits are the bounds of the package comment, smaller in tests.
type limits struct {
	log         int64 // bytes at which rejected.log or skipped.log is rotated
	rotated     int   // rotated files that are kept of each
	file        int64 // bytes of a file of undelivered events, unless one event takes more
	undelivered int64 // bytes of all such files of one output
	line        int   // bytes of an undelivered event: what reading it back takes in memory
	raw         int   // bytes of a skipped record that are kept
}

var defaultLimits = limits{log: 100 << 20, rotated: 5, file: 64 << 20, undelivered: 1 << 30, line: 128 << 20, raw: 64 << 10}

const (
	rejectedLog = "rejected.log"
	skippedLog  = "skipped.log"
)

// Open makes the folder if it is missing, with mode 0700, and the logs in it, with
// mode 0600; the folder's parent has to exist. A last line that a crash cut off is
// repaired, as Reject says.
//
// removed is called for each rotated file that was removed to make room, with its
// name and size, by the goroutine whose call of Reject or Skip made it necessary.
func Open(path string, removed func(name string, bytes int64)) (*Dir, error) {
	d := &Dir{path: path, removed: removed, limits: defaultLimits, open: openFile}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	err := d.locked(func(h *held) error {
		for _, name := range []string{rejectedLog, skippedLog} {
			f, size, err := h.openLog(name)
			if err != nil {
				return err
			}
			// A disk that is full must not keep Fluent Bit from starting: the next
			// line's append tries again, and says why it cannot.
			_, _ = h.repair(f, name, size)
			f.Close()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// held is the folder while this goroutine has its lock.
type held struct {
	*Dir
	folder *os.File
	gone   []stamped // removed to make room
}

// locked calls do while no other goroutine or process changes the folder.
func (d *Dir) locked(do func(*held) error) error {
	folder, err := os.Open(d.path)
	if err != nil {
		return err
	}
	h := &held{Dir: d, folder: folder}
	err = func() error {
		defer folder.Close()
		if err := lock(folder); err != nil {
			return &fs.PathError{Op: "lock", Path: d.path, Err: err}
		}
		return do(h)
	}()
	for _, f := range h.gone {
		d.removed(f.name, f.size)
	}
	return err
}

func (d *Dir) join(name string) string { return filepath.Join(d.path, name) }
