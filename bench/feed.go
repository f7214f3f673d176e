package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// This file writes the log while Fluent Bit follows it: ten lines at a time, far
// enough apart that each ten become a chunk.

const (
	fedLog    = "fed.log"
	feedEvery = 5 * time.Millisecond
	feedStart = time.Second // until Fluent Bit follows the file
	feedEnd   = time.Second // until what is left may be read; Grace is for its delivery
)

// feed blocks until all is written, and then asks Fluent Bit to end. A line that is
// not written shows in the receiver's count.
func (r *running) feed(lines [][]byte) {
	defer func() { _ = r.cmd.Process.Signal(syscall.SIGTERM) }()
	f, err := os.OpenFile(filepath.Join(r.dir, fedLog), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return
	}
	defer f.Close()
	time.Sleep(feedStart)
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for ; len(lines) >= smallChunk; lines = lines[smallChunk:] {
		<-tick.C
		if _, err := f.Write(append(bytes.Join(lines[:smallChunk], []byte("\n")), '\n')); err != nil {
			return
		}
	}
	time.Sleep(feedEnd)
}
