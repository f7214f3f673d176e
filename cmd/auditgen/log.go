// This file writes whole lines to a file, and rotates it as kube-apiserver does.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bufferSize is how many bytes are collected for one write call. A longer line is
// written alone.
const bufferSize = 64 << 10

// backupForm is the time in a backup's name, in UTC, as lumberjack writes it, which is
// what kube-apiserver rotates with.
const backupForm = "2006-01-02T15-04-05.000"

// auditLog is a file that grows by whole lines. A reader may see the first part of a
// line while it is being written, but never for long, and none is split between files.
// Nobody else may write to the file or rotate it.
//
// With the field file alone it writes to a stream, such as stdout.
type auditLog struct {
	name       string
	maxSize    int64 // bytes at which a file is replaced; 0: never
	maxBackups int   // how many replaced files are kept; 0: all

	file    *os.File
	regular bool  // opened by name, and no pipe or device
	size    int64 // of the file, without what is in pending
	pending []byte
	backups []time.Time // their times, the oldest first

	lines, bytes int // in the file or a backup
	rotations    int
}

// openLog opens a file to append to, or makes it, readable by its owner alone as
// kube-apiserver does. A last line without an end gets one, so that it spoils no other.
func openLog(name string, maxSize int64, maxBackups int) (*auditLog, error) {
	l := &auditLog{name: name, maxSize: maxSize, maxBackups: maxBackups}
	if err := l.open(0o600); err != nil {
		return nil, err
	}
	err := l.resume()
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

func (l *auditLog) open(mode os.FileMode) (err error) {
	l.file, err = os.OpenFile(l.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, mode)
	return err
}

// resume takes up a file, and the backups of it that are there.
func (l *auditLog) resume() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		if l.maxSize > 0 {
			return fmt.Errorf("%s: not a regular file, which alone can be rotated", l.name)
		}
		return nil
	}
	l.regular = true
	if l.size = info.Size(); l.size > 0 {
		last := make([]byte, 1)
		if _, err := l.file.ReadAt(last, l.size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			n, err := l.file.Write([]byte("\n"))
			l.size += int64(n)
			if err != nil {
				return err
			}
		}
	}
	if l.maxSize == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(l.name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if at, is := l.backupTime(e.Name()); is {
			l.backups = append(l.backups, at)
		}
	}
	slices.SortFunc(l.backups, time.Time.Compare)
	return nil
}

// add takes one line with its end, which the caller may reuse. It is in the file after
// the next flush, or when enough lines are pending. After an error nothing is pending,
// and the line may be lost.
func (l *auditLog) add(line []byte) error {
	total := l.size + int64(len(l.pending))
	if l.maxSize > 0 && total > 0 && total+int64(len(line)) > l.maxSize {
		if err := l.flush(); err != nil {
			return err
		}
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if len(l.pending)+len(line) > bufferSize {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.pending = append(l.pending, line...)
	return nil
}

// flush writes what is pending, with one call.
func (l *auditLog) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	lines := l.pending
	l.pending = l.pending[:0]
	return l.write(lines)
}

// write writes whole lines. If not all of them fit, the ones that do stay, and a part
// of a line is taken back.
func (l *auditLog) write(lines []byte) error {
	n, err := l.file.Write(lines)
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	l.lines += bytes.Count(lines[:whole], []byte("\n"))
	l.bytes += whole
	l.size += int64(whole)
	if whole < n && l.regular {
		// Where this fails too the file ends in a part of a line; err tells of the cause.
		_ = l.file.Truncate(l.size)
	}
	return err
}

// rotate renames the file to its name with the time in it, opens a new one with the
// same mode, and removes the oldest backups. Nothing may be pending.
func (l *auditLog) rotate() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if err := l.file.Close(); err != nil {
		return err
	}
	at, err := l.freeTime()
	if err != nil {
		return err
	}
	if err := os.Rename(l.name, l.backupName(at)); err != nil {
		return err
	}
	if err := l.open(info.Mode().Perm()); err != nil {
		return err
	}
	l.size = 0
	l.rotations++
	l.backups = append(l.backups, at)
	for l.maxBackups > 0 && len(l.backups) > l.maxBackups {
		if err := os.Remove(l.backupName(l.backups[0])); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l.backups = l.backups[1:]
	}
	return nil
}

// freeTime is now, or the next millisecond that no backup has and that comes after all
// of them: names tell milliseconds apart, and their order is the order of the events.
func (l *auditLog) freeTime() (time.Time, error) {
	at := time.Now().UTC().Truncate(time.Millisecond)
	if n := len(l.backups); n > 0 && !at.After(l.backups[n-1]) {
		at = l.backups[n-1].Add(time.Millisecond)
	}
	for {
		_, err := os.Lstat(l.backupName(at))
		if errors.Is(err, os.ErrNotExist) {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		at = at.Add(time.Millisecond)
	}
}

// backupName puts a time before the extension.
func (l *auditLog) backupName(at time.Time) string {
	ext := filepath.Ext(l.name)
	return strings.TrimSuffix(l.name, ext) + "-" + at.Format(backupForm) + ext
}

// backupTime reads the time in a file name, if it is that of a backup.
func (l *auditLog) backupTime(base string) (time.Time, bool) {
	ext := filepath.Ext(l.name)
	text, found := strings.CutPrefix(base, strings.TrimSuffix(filepath.Base(l.name), ext)+"-")
	text, ends := strings.CutSuffix(text, ext)
	at, err := time.Parse(backupForm, text)
	return at, found && ends && err == nil
}
