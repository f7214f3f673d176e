// This file reads files of undelivered events, each for one owner at a time.

package deadletter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Undelivered returns the names of the files of undelivered events of the output id,
// the oldest first: also of those that are being written, that somebody has taken
// up, or that TakeUp refuses.
func (d *Dir) Undelivered(id string) ([]string, error) {
	prefix, err := undeliveredPrefix(id)
	if err != nil {
		return nil, err
	}
	files, err := d.stamped(prefix)
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	return names, err
}

// Taken is a file of undelivered events while it is taken up: nobody else gets it
// until Remove or Close, or the end of this process. It is for one goroutine.
type Taken struct {
	d          *Dir
	name       string
	f          file
	lines      *lineReader
	unreadable int
	end        error // what ended the reading, nil before
	skipErr    error // the first of skipped.log
}

// TakeUp opens a file that Undelivered returned. It returns nil and no error if the
// file is gone, or if another goroutine or process is writing it or has taken it up.
// Anything but a regular file is refused with an error. The caller has to call
// Remove or Close in the end.
func (d *Dir) TakeUp(name string) (t *Taken, err error) {
	err = d.locked(func(h *held) error {
		f, err := h.open(h.join(name), 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		locked, err := tryLock(f)
		if !locked {
			f.Close()
			return err
		}
		lines := &lineReader{in: bufio.NewReaderSize(f, 64<<10), limit: d.limits.line}
		t = &Taken{d: d, name: name, f: f, lines: lines}
		return nil
	})
	return t, err
}

// Next returns the next event, byte for byte from its brace to its brace, until
// io.EOF, or until the disk fails: then that error, always. The bytes are valid until
// the next call. A line that is no JSON object, such as one that a crash cut off, is
// counted and put to skipped.log.
func (t *Taken) Next() ([]byte, error) {
	for t.end == nil {
		line, length, err := t.lines.next()
		event := bytes.Trim(line, " \t\r")
		cut := length > len(line)
		switch {
		case err != nil:
			t.end = err
		case !cut && bytes.HasPrefix(event, []byte("{")) && json.Valid(event):
			return event, nil
		case cut || len(event) > 0:
			t.unreadable++
			err := t.d.skip(Skipped{Reason: "no event in a line of " + t.name, Raw: line}, length)
			if t.skipErr == nil {
				t.skipErr = err
			}
		}
	}
	return nil, t.end
}

// Unreadable is how many lines Next has left out.
func (t *Taken) Unreadable() int { return t.unreadable }

// Remove deletes the file, and closes it. The caller says by it that each event that
// Next returned has settled. It is an error if Next has not returned io.EOF, or if a
// line that it left out could not be written to skipped.log: the file then stays.
// After any error the file may be taken up again.
func (t *Taken) Remove() error {
	defer t.Close()
	if t.end != io.EOF {
		return fmt.Errorf("%s is not removed: it was not read to its end", t.name)
	}
	if t.skipErr != nil {
		return fmt.Errorf("%s is not removed: a line that is no event could not be written to %s: %w", t.name, skippedLog, t.skipErr)
	}
	return t.d.remove(t.name)
}

// Close gives the file back unchanged: who takes it up next gets all of it. It may be
// called again, and after Remove.
func (t *Taken) Close() {
	t.f.Close()
	t.end = fs.ErrClosed
}
