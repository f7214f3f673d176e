// This file keeps the accepted events in a file, on the disk before they are answered.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// store appends events to a file, one a line.
type store struct {
	mu      sync.Mutex
	changed sync.Cond
	file    *os.File
	lines   int // in the file
	written int // appends that are in the file
	synced  int // appends that are on the disk
	syncing bool
	err     error // the first failure; nothing is accepted after it
}

// openStore opens or creates a store and gives each event that it holds to existing. A
// last line without its end was cut off by the end of an earlier process before any
// answer: it is removed.
func openStore(name string, existing func(event)) (*store, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	var size int64
	lines := 0
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("-store: %w", err)
		}
		size += int64(len(line))
		lines++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			existing(newEvent(line))
		}
	}
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("-store: %w", err)
	}
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("-store: %w", err)
	}
	s := &store{file: f, lines: lines}
	s.changed.L = &s.mu
	return s, nil
}

// append writes events and returns once they are on the disk, with the number of the
// first one's line, from 1. Concurrent calls share one fsync. After an error the file's
// end is unknown, so every later call fails too.
func (s *store) append(events []event) (first int, err error) {
	size := 0
	for _, e := range events {
		size += len(e.raw) + 1
	}
	lines := make([]byte, 0, size)
	for _, e := range events {
		lines = append(append(lines, e.raw...), '\n')
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if _, err := s.file.Write(lines); err != nil {
		s.err = fmt.Errorf("-store: %w", err)
		return 0, s.err
	}
	first = s.lines + 1
	s.lines += len(events)
	s.written++
	for mine := s.written; s.synced < mine && s.err == nil; {
		if s.syncing {
			s.changed.Wait()
			continue
		}
		s.syncing = true
		upTo := s.written
		s.mu.Unlock()
		err := s.file.Sync()
		s.mu.Lock()
		s.syncing = false
		if err != nil {
			s.err = fmt.Errorf("-store: %w", err)
		} else {
			s.synced = upTo
		}
		s.changed.Broadcast()
	}
	return first, s.err
}

// failure returns the error that ended the storing, if one did.
func (s *store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *store) close() { s.file.Close() }
