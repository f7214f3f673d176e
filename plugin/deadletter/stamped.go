// This file names files by the time at which they were made.

package deadletter

import (
	"os"
	"strings"
	"time"
)

// stampForm is the time in a name, as kube-apiserver writes it when it rotates its
// audit log.
const stampForm = "2006-01-02T15-04-05.000"

// stamped is a file with a time in its name.
type stamped struct {
	name string
	at   time.Time
	size int64
}

// stamped returns the files named PREFIX-TIME.log, the oldest first.
func (d *Dir) stamped(prefix string) ([]stamped, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var found []stamped // in the order of the names, which is that of the times
	for _, e := range entries {
		text, begins := strings.CutPrefix(e.Name(), prefix+"-")
		text, ends := strings.CutSuffix(text, ".log")
		at, err := time.Parse(stampForm, text)
		if !begins || !ends || err != nil {
			continue
		}
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			found = append(found, stamped{e.Name(), at, info.Size()})
		}
	}
	return found, nil
}

// nextName is the name of the file that follows those: names tell milliseconds
// apart, and their order is the order in which the files were made.
func nextName(prefix string, before []stamped) string {
	at := time.Now().UTC().Truncate(time.Millisecond)
	if n := len(before); n > 0 && !at.After(before[n-1].at) {
		at = before[n-1].at.Add(time.Millisecond)
	}
	return prefix + "-" + at.Format(stampForm) + ".log"
}
