// This file writes the events that were still undelivered at the end.

package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
)

// ErrFull is what Keep returns when the files of an output have reached 1 GiB.
var ErrFull = errors.New("the files of undelivered events of this output have reached their limit")

// ErrTooLong is what Keep returns for an event that is longer than Next reads.
var ErrTooLong = errors.New("the event is too long to be kept")

// Keep writes events to new files for the output id, which is 1 to 64 lower-case hex
// digits: as many files as it takes at 64 MB each. An event that is larger has a file
// of its own. A file is written once: it changes no more until Remove deletes it.
//
// Keep returns how many of the events, the first ones, are on the disk: all if the
// error is nil. The others are in no file, with one exception: if only the sync of a
// file failed, the file stays, since its events may arrive, and they are not counted.
// A process that is killed meanwhile leaves what it wrote: whole lines, and perhaps a
// torn one at the end of the last file.
//
// Nothing takes a file up before it is whole and synced. Calls for one id at the same
// time do not count what the others have yet to write towards its 1 GiB.
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
	err = errors.Join(err, k.finish())
	return k.kept, err
}

// undeliveredPrefix is what the names of an output's files begin with.
func undeliveredPrefix(id string) (string, error) {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			id = ""
		}
	}
	if id == "" || len(id) > 64 {
		return "", errors.New("the output's id is not 1 to 64 lower-case hex digits")
	}
	return "undelivered-" + id, nil
}

// keepSize is how many bytes are collected for one write.
const keepSize = 1 << 20

// keeper writes the files of one call of Keep, one after the other.
type keeper struct {
	d      *Dir
	prefix string
	kept   int // events in finished files

	// The file that is being written.
	f       file // nil: none
	name    string
	limit   int64  // bytes that all files of the output may still take
	pending []byte // whole lines that are not yet in the file
	size    int64  // of the whole lines in the file
	lines   int    // their number
}

func (k *keeper) add(event []byte) error {
	if len(event) > k.d.limits.line {
		return fmt.Errorf("%w: %d bytes", ErrTooLong, len(event))
	}
	need := int64(len(event)) + 1
	if k.size+int64(len(k.pending))+need > k.d.limits.file {
		if err := k.finish(); err != nil {
			return err
		}
	}
	if k.f == nil {
		if err := k.create(); err != nil {
			return err
		}
	}
	if k.size+int64(len(k.pending))+need > k.limit {
		return fmt.Errorf("%w: %d bytes", ErrFull, k.d.limits.undelivered)
	}
	k.pending = appendLine(k.pending, event)
	if len(k.pending) >= keepSize {
		return k.flush()
	}
	return nil
}

// create makes the next file and locks it, before anybody could take it up.
func (k *keeper) create() error {
	return k.d.locked(func(h *held) error {
		files, err := h.stamped(k.prefix)
		if err != nil {
			return err
		}
		k.limit = h.limits.undelivered
		for _, f := range files {
			k.limit -= f.size
		}
		k.name = nextName(k.prefix, files)
		f, err := h.open(h.join(k.name), os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		if err := lock(f); err != nil {
			f.Close()
			return err
		}
		k.f, k.size, k.lines = f, 0, 0
		return h.folder.Sync() // brings the name to the disk
	})
}

// flush writes what is pending. If the disk does not take all of it, the lines that
// it took stay.
func (k *keeper) flush() error {
	lines := k.pending
	k.pending = k.pending[:0]
	n, err := k.f.Write(lines)
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	k.size += int64(whole)
	k.lines += bytes.Count(lines[:whole], []byte("\n"))
	if err != nil {
		// Where this fails too Next meets a torn line; err tells of the cause.
		_ = k.f.Truncate(k.size)
	}
	return err
}

// finish writes the rest of a file, waits for the disk and closes the file. From then
// on its events count as kept, and it may be taken up.
func (k *keeper) finish() error {
	if k.f == nil {
		return nil
	}
	defer func() {
		k.f.Close()
		k.f = nil
	}()
	err := k.flush()
	if k.size == 0 {
		return errors.Join(err, k.d.remove(k.name))
	}
	if syncErr := k.f.Sync(); syncErr != nil {
		return errors.Join(err, syncErr)
	}
	k.kept += k.lines
	return err
}

// remove deletes a file that the caller has locked. It holds the folder's lock, as
// TakeUp does, and the caller unlocks the file afterwards: so nobody takes up a file
// that is about to go.
func (d *Dir) remove(name string) error {
	return d.locked(func(h *held) error {
		if err := os.Remove(h.join(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return h.folder.Sync()
	})
}
