package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// This file is an audit log that grows and is rotated while Fluent Bit reads it.

// rotatedLog is a log of events that all differ. Its methods may be called at once; a
// rotation comes between two writes.
type rotatedLog struct {
	t     *testing.T
	name  string
	lines []string // the events, which begin anew with other auditIDs after the last

	mu        sync.Mutex
	file      *os.File
	written   int
	rotations int

	halted atomic.Bool
	grown  sync.WaitGroup
}

// newRotatedLog makes an empty log audit.log in a folder.
func newRotatedLog(t *testing.T, dir string) *rotatedLog {
	t.Helper()
	l := &rotatedLog{t: t, name: filepath.Join(dir, "audit.log"), lines: auditLog(t, "metadata")}
	l.open()
	t.Cleanup(func() {
		l.halted.Store(true)
		l.grown.Wait()
		l.file.Close()
	})
	return l
}

// pattern matches the file that is written to and the rotated ones.
func (l *rotatedLog) pattern() string { return strings.TrimSuffix(l.name, ".log") + "*.log" }

func (l *rotatedLog) open() {
	file, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		l.t.Error(err)
		return
	}
	l.file = file
}

// line is the event of that number.
func (l *rotatedLog) line(n int) string {
	return strings.Replace(l.lines[n%len(l.lines)], `"auditID":"`, fmt.Sprintf(`"auditID":"%07d-`, n), 1)
}

// write appends that many events, with one call.
func (l *rotatedLog) write(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	for range events {
		text.WriteString(l.line(l.written))
		text.WriteByte('\n')
		l.written++
	}
	if _, err := l.file.WriteString(text.String()); err != nil {
		l.t.Error(err)
	}
}

// events is how many are written.
func (l *rotatedLog) events() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// rotate gives the file another name and begins a new one, as kube-apiserver does.
func (l *rotatedLog) rotate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.file.Close(), os.Rename(l.name, l.rotatedName())); err != nil {
		l.t.Error(err)
	}
	l.open()
}

// copyAndTruncate copies the file to another name and empties it, as logrotate does with
// copytruncate. Nothing is written in between: what is, logrotate loses.
func (l *rotatedLog) copyAndTruncate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, err := os.Open(l.name)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer from.Close()
	to, err := os.Create(l.rotatedName())
	if err != nil {
		l.t.Error(err)
		return
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close(), l.file.Truncate(0)); err != nil {
		l.t.Error(err)
	}
}

// rotatedName is a new name with the time in it, as lumberjack gives them.
func (l *rotatedLog) rotatedName() string {
	l.rotations++
	for at := time.Now().UTC(); ; at = at.Add(time.Millisecond) {
		name := strings.TrimSuffix(l.name, ".log") + "-" + at.Format("2006-01-02T15-04-05.000") + ".log"
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// grow begins to write events at a rate, and to rotate so often; 0: never. wait says when
// all are written.
func (l *rotatedLog) grow(events, perSecond int, every time.Duration, rotate func()) {
	l.grown.Go(func() {
		begin, rotated := time.Now(), time.Now()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for done := 0; done < events && !l.halted.Load(); <-tick.C {
			due := min(events, int(time.Since(begin).Seconds()*float64(perSecond)))
			l.write(due - done)
			done = due
			if every > 0 && time.Since(rotated) >= every {
				rotated = time.Now()
				rotate()
			}
		}
	})
}

func (l *rotatedLog) wait() { l.grown.Wait() }
