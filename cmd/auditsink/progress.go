// This file shows on a terminal how far things are.

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progressPeriod is the shortest time between two changes of the line.
const progressPeriod = 200 * time.Millisecond

// progress rewrites one line while the counts change.
type progress struct {
	end     chan struct{}
	running sync.WaitGroup
}

// startProgress shows counts on w until stop; not at all unless shown.
func startProgress(w io.Writer, shown bool, counts func() snapshot) *progress {
	p := &progress{end: make(chan struct{})}
	if !shown {
		return p
	}
	p.running.Go(func() {
		ticks := time.NewTicker(progressPeriod)
		defer ticks.Stop()
		last := ""
		show := func() {
			if line := progressLine(counts()); line != last {
				fmt.Fprintf(w, "\r%s\x1b[K", line)
				last = line
			}
		}
		for {
			select {
			case <-ticks.C:
				show()
			case <-p.end:
				show()
				fmt.Fprintln(w)
				return
			}
		}
	})
	return p
}

// stop shows the last state and returns when the line is finished.
func (p *progress) stop() {
	close(p.end)
	p.running.Wait()
}

func progressLine(c snapshot) string {
	failed := 0
	for as, n := range c.answers {
		if !strings.HasPrefix(as, "2") {
			failed += n
		}
	}
	return fmt.Sprintf("requests %d (%d failed), batches %d, events %d, duplicates %d, %.1f MB",
		c.requests, failed, c.batches, c.events, c.duplicates, float64(c.bytes)/1e6)
}

// isTerminal reports whether w is one. A character device that is not the null device is
// as near as the standard library comes.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
