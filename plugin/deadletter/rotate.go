// This file replaces a log that is full, and removes the oldest of those replaced.

package deadletter

import (
	"os"
	"strings"
)

// rotate gives the log its name with the time.
func (h *held) rotate(name string) error {
	prefix := strings.TrimSuffix(name, ".log")
	before, err := h.stamped(prefix)
	if err != nil {
		return err
	}
	if err := os.Rename(h.join(name), h.join(nextName(prefix, before))); err != nil {
		return err
	}
	for len(before)+1 > h.limits.rotated {
		// The line is worth more than the order: a file that cannot be removed is
		// tried again at the next rotation.
		if os.Remove(h.join(before[0].name)) == nil {
			h.gone = append(h.gone, before[0])
		}
		before = before[1:]
	}
	return nil
}
