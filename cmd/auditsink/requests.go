// This file writes down when each request came and was answered, and which lines of the
// store it became: what was under way at a given moment.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// request is one line of the file that -requests names.
type request struct {
	Begin  time.Time `json:"begin"`
	End    time.Time `json:"end"`    // the answer goes out after this moment
	First  int       `json:"first"`  // its first line in the store, from 1; 0: nothing was stored
	Events int       `json:"events"` // how many lines it became
}

// requestLog is that file. A nil one writes nothing.
type requestLog struct {
	mu   sync.Mutex
	file *os.File
}

func openRequestLog(name string) (*requestLog, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("-requests: %w", err)
	}
	return &requestLog{file: f}, nil
}

// add appends a line, with one write.
func (l *requestLog) add(r request) error {
	if l == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.file.Write(append(line, '\n'))
	return err
}

func (l *requestLog) close() {
	if l != nil {
		l.file.Close()
	}
}
