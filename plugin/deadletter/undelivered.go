// This file keeps the events that were still undelivered at the end.

package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
)

// ErrFull is what Keep returns when the files of a destination are as large as they
// may be.
var ErrFull = errors.New("the undelivered events of this destination take all the room they may")

// ErrTooLong is what Keep returns for an event that is longer than TakeUp reads.
var ErrTooLong = errors.New("the event is too long to be kept")

// Keep writes events to a new file for the destination id, which is lower-case hex
// digits. It returns how many of them, the first ones, are on the disk: all if the
// error is nil. Of the others nothing is there, with one exception: if only the
// disk's sync failed, Keep returns 0 and leaves the file, since its events may
// arrive. A process that is killed meanwhile leaves what was written.
//
// Nothing takes the events up before Keep has returned. The iterator may read from a
// Taken of the same Dir.
func (d *Dir) Keep(id string, events iter.Seq[[]byte]) (kept int, err error) {
	prefix, err := undeliveredPrefix(id)
	if err != nil {
		return 0, err
	}
	k := &keeper{d: d, prefix: prefix}
	for event := range events {
		if err = k.add(event); err != nil {
			break
		}
	}
	return k.end(err)
}

// undeliveredPrefix is what the names of a destination's files begin with.
func undeliveredPrefix(id string) (string, error) {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			id = ""
		}
	}
	if id == "" || len(id) > 64 {
		return "", errors.New("the destination's identity is not 1 to 64 lower-case hex digits")
	}
	return "undelivered-" + id, nil
}

// keepSize is how many bytes are collected for one write.
const keepSize = 1 << 20

// keeper is the file that Keep writes.
type keeper struct {
	d       *Dir
	prefix  string
	name    string
	f       file // nil before the first event
	room    int64
	pending []byte // whole lines
	size    int64  // of the whole lines in the file
	kept    int    // their number
}

func (k *keeper) add(event []byte) error {
	if k.f == nil {
		if err := k.create(); err != nil {
			return err
		}
	}
	need := int64(len(event)) + 1
	if len(event) > k.d.limits.line {
		return fmt.Errorf("%w: %d bytes", ErrTooLong, len(event))
	}
	if k.size+int64(len(k.pending))+need > k.room {
		return fmt.Errorf("%w: %d bytes", ErrFull, k.d.limits.undelivered)
	}
	k.pending = appendLine(k.pending, event)
	if len(k.pending) >= keepSize {
		return k.flush()
	}
	return nil
}

// create makes the file and locks it, before anybody could take it up.
func (k *keeper) create() error {
	return k.d.locked(func(h *held) error {
		files, err := h.stamped(k.prefix)
		if err != nil {
			return err
		}
		k.room = h.limits.undelivered
		for _, f := range files {
			k.room -= f.size
		}
		k.name = h.join(nextName(k.prefix, files))
		f, err := h.open(k.name, os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		if err := lock(f); err != nil {
			f.Close()
			return err
		}
		k.f = f
		return nil
	})
}

// flush writes what is pending. If not all of it fits, the lines that do stay.
func (k *keeper) flush() error {
	lines := k.pending
	k.pending = k.pending[:0]
	n, err := k.f.Write(lines)
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	k.size += int64(whole)
	k.kept += bytes.Count(lines[:whole], []byte("\n"))
	if err != nil {
		// Where this fails too TakeUp meets a torn line; err tells of the cause.
		_ = k.f.Truncate(k.size)
	}
	return err
}

// end writes the rest, waits for the disk and closes the file. It is given the error
// that ended the intake.
func (k *keeper) end(err error) (int, error) {
	if k.f == nil {
		return 0, err
	}
	defer k.f.Close()
	err = errors.Join(err, k.flush())
	if k.kept == 0 {
		return 0, errors.Join(err, os.Remove(k.name))
	}
	if syncErr := errors.Join(k.f.Sync(), k.d.syncFolder()); syncErr != nil {
		return 0, errors.Join(err, syncErr)
	}
	return k.kept, err
}

// syncFolder brings the names in the folder to the disk.
func (d *Dir) syncFolder() error {
	folder, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
