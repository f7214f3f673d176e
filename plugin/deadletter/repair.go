// This file repairs a log whose last line was cut off by a crash.

package deadletter

import (
	"bytes"
	"encoding/json"
)

// repair sees to it that a file of that size ends with a whole line, and returns its
// new size.
func (h *held) repair(f file, name string, size int64) (int64, error) {
	torn, err := lastPart(f, size)
	if err != nil || len(torn) == 0 {
		return size, err
	}
	if json.Valid(torn) {
		return size + 1, h.write(f, size, []byte("\n"), name == rejectedLog)
	}
	whole := size - int64(len(torn))
	record := h.skippedLine(Skipped{Reason: "torn line of " + name, Raw: torn}, len(torn))
	if name == skippedLog {
		if err := f.Truncate(whole); err != nil {
			return size, err
		}
		return whole + int64(len(record)), h.write(f, whole, record, false)
	}
	// A crash between the two leaves the part in both files, rather than in none.
	if err := h.append(skippedLog, record, true); err != nil {
		return size, err
	}
	return whole, f.Truncate(whole)
}

// lastPart returns what follows the last line feed of a file of that size.
func lastPart(f file, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	// Nearly always the last byte says that there is nothing to do.
	last, err := readRange(f, size-1, size)
	if err != nil || last[0] == '\n' {
		return nil, err
	}
	const step = 64 << 10
	for end := size; end > 0; end -= step {
		start := max(0, end-step)
		part, err := readRange(f, start, end)
		if err != nil {
			return nil, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return readRange(f, start+int64(at)+1, size)
		}
	}
	return readRange(f, 0, size)
}

func readRange(f file, start, end int64) ([]byte, error) {
	part := make([]byte, end-start)
	_, err := f.ReadAt(part, start)
	return part, err
}
