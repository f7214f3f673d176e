// This file takes up undelivered events, for one owner at a time.

package deadletter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Taken is the undelivered events of one destination. Nobody else gets them while
// it is open, or while its process lives. It is for one goroutine.
type Taken struct {
	d          *Dir
	files      []*takenFile
	unread     []*takenFile
	lines      *lineReader // of the first of unread; nil before its first line
	unreadable int
	readErr    error // the first; what follows in a file is no line's beginning
	skipErr    error // the first of skipped.log
}

type takenFile struct {
	file
	name string
	read bool // to its end
}

// TakeUp takes all undelivered events of a destination, the first kept ones first,
// but those that are being written or that another has taken: they are for later. It
// returns nil if there are none. The caller has to call Close in the end.
func (d *Dir) TakeUp(id string) (*Taken, error) {
	prefix, err := undeliveredPrefix(id)
	if err != nil {
		return nil, err
	}
	t := &Taken{d: d}
	err = d.locked(func(h *held) error {
		names, err := h.stamped(prefix)
		if err != nil {
			return err
		}
		for _, s := range names {
			f, err := h.open(h.join(s.name), 0)
			if err != nil {
				return err
			}
			mine, err := tryLock(f)
			if !mine {
				f.Close()
				if err != nil {
					return err
				}
				continue
			}
			t.files = append(t.files, &takenFile{file: f, name: s.name})
		}
		return nil
	})
	t.unread = t.files
	if err != nil || len(t.files) == 0 {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Next returns the next event, byte for byte, until io.EOF, or until the disk fails:
// then that error, always. The bytes are valid until the next call. A line that is no JSON object, such as one that a crash cut
// off, is counted and put to skipped.log.
func (t *Taken) Next() ([]byte, error) {
	for len(t.unread) > 0 && t.readErr == nil {
		f := t.unread[0]
		if t.lines == nil {
			t.lines = &lineReader{in: bufio.NewReaderSize(f, 64<<10), limit: t.d.limits.line}
		}
		line, length, err := t.lines.next()
		switch {
		case err == io.EOF:
			f.read = true
			t.unread, t.lines = t.unread[1:], nil
		case err != nil:
			t.readErr = err
		case isEvent(line) && length == len(line):
			return line, nil
		case length > 0:
			t.unreadable++
			err := t.d.skip(Skipped{Reason: "no event in a line of " + f.name, Raw: line}, length)
			if t.skipErr == nil {
				t.skipErr = err
			}
		}
	}
	if t.readErr != nil {
		return nil, t.readErr
	}
	return nil, io.EOF
}

func isEvent(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("{")) && json.Valid(line)
}

// Unreadable is how many lines Next has left out.
func (t *Taken) Unreadable() int { return t.unreadable }

// Settled says that each event that Next returned is delivered, or kept anew. It
// removes the files that Next has read to their end, and gives the others back as
// Close does. After an error some of the events may be taken up again, or, if the
// error is that of skipped.log, a line that Next left out is nowhere any more.
func (t *Taken) Settled() error {
	defer t.Close()
	err := t.d.locked(func(h *held) error {
		// Under the folder's lock, and before the files' own are given up: who comes
		// next finds no file that is about to go.
		var errs []error
		for _, f := range t.files {
			if !f.read {
				continue
			}
			if err := os.Remove(h.join(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(append(errs, h.folder.Sync())...)
	})
	return errors.Join(err, t.skipErr)
}

// Close gives back what is not settled: the next TakeUp gets all of it, also what
// Next has returned. It may be called again, and after Settled.
func (t *Taken) Close() {
	for _, f := range t.files {
		f.Close()
	}
	t.files, t.unread, t.lines = nil, nil, nil
}
