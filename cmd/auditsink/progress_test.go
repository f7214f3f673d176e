// Tests of the progress line.

package main

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuilder may be read while it is written to.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestProgressChangesFiveTimesASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuilder
		n := 0
		p := startProgress(&out, true, func() snapshot {
			n++
			if n > 7 {
				n = 7 // the eighth look finds nothing new
			}
			return snapshot{requests: n, answers: map[string]int{"200": 1, "503": 2, "cut": 3}, bytes: 1_250_000}
		})
		time.Sleep(time.Second - 1) // fake time
		synctest.Wait()
		if got := strings.Count(out.String(), "\r"); got != 4 {
			t.Errorf("%d changes in the first second, want 4", got)
		}
		time.Sleep(time.Second)
		p.stop()
		if got := strings.Count(out.String(), "\r"); got != 7 {
			t.Errorf("%d changes, want 7", got)
		}
		_, last, _ := strings.Cut(out.String(), "\rrequests 7")
		want(t, "last line", last, " (5 failed), batches 0, events 0, duplicates 0, 1.2 MB\x1b[K\n")
	})
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	var out strings.Builder
	p := startProgress(&out, isTerminal(&out), func() snapshot { t.Error("looked"); return snapshot{} })
	p.stop()
	if out.Len() != 0 {
		t.Errorf("wrote %q", &out)
	}
}
