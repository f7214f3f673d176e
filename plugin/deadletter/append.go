// This file appends whole lines to a log.

package deadletter

import (
	"bytes"
	"os"
)

// Reject appends an event that the webhook refused for good to rejected.log. The
// event has to be valid JSON. When Reject returns nil the event is on the disk;
// after an error nothing of it is in the file, unless the disk failed to take it
// back as well.
//
// Where a crash left a part of a line at the file's end, the part goes to
// skipped.log. If it is a whole event that lacks its line feed alone, it gets it.
func (d *Dir) Reject(event []byte) error {
	line := appendLine(make([]byte, 0, len(event)+1), event)
	return d.locked(func(h *held) error { return h.append(rejectedLog, line, true) })
}

// appendLine appends the event as one line. In JSON a line feed is only ever between
// tokens, where a space does as well.
func appendLine(to, event []byte) []byte {
	start := len(to)
	to = append(to, event...)
	for at := start; ; at++ {
		next := bytes.IndexByte(to[at:], '\n')
		if next < 0 {
			return append(to, '\n')
		}
		at += next
		to[at] = ' '
	}
}

// append appends a line to a log, after what is due before: the repair of its last
// line, and the rotation.
func (h *held) append(name string, line []byte, durable bool) error {
	f, size, err := h.openLog(name)
	if err != nil {
		return err
	}
	defer func() { f.Close() }()
	if size, err = h.repair(f, name, size); err != nil {
		return err
	}
	if size > 0 && size+int64(len(line)) > h.limits.log {
		if err := h.rotate(name); err != nil {
			return err
		}
		next, nextSize, err := h.openLog(name)
		if err != nil {
			return err
		}
		f.Close()
		f, size = next, nextSize
	}
	return h.write(f, size, line, durable)
}

func (h *held) openLog(name string) (file, int64, error) {
	f, err := h.open(h.join(name), os.O_CREATE)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// write writes at the end of a file of that size, and takes back what it wrote if
// that is not all.
func (h *held) write(f file, size int64, data []byte, durable bool) error {
	_, err := f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if err == nil && durable && size == 0 {
		// The file may be new, and its name is on the disk when the folder is.
		err = h.folder.Sync()
	}
	if err != nil {
		// Where this fails too the next append repairs the file; err tells of the cause.
		_ = f.Truncate(size)
	}
	return err
}
