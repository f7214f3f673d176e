// This file measures what several ways of doing the same work take, side by side
// in one run.

package peers

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// side is one way of doing the work.
type side struct {
	name string     // in the metric
	run  func() int // does all of it, and returns how many events came of it
	// times it is done in one measurement, at least 1: more for what is so fast
	// that the clock would be too coarse.
	times   int
	process *sender // that does it; nil: this one
}

// collect lets the process collect what garbage there is, so that the work does not.
func (s side) collect(t testing.TB) {
	t.Helper()
	if s.process != nil {
		s.process.do(t, collect)
		return
	}
	runtime.GC()
}

// cpuTime is what the process has used so far, user and system. Garbage
// collection is in it; other processes, and waiting for them, are not.
func (s side) cpuTime(t testing.TB) time.Duration {
	t.Helper()
	if s.process != nil {
		return s.process.cpuTime(t)
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compare lets each side do the work in turn, reps times in each iteration of the
// benchmark, and reports medians: the events of each side per CPU-second, and how
// many times the other sides' the first one's are, taken within each turn, since
// the machine is faster in one minute than in the next. events is what has to
// come of the work, size its bytes: how many of them the first side got through
// is reported as well.
func compare(b *testing.B, events, size, reps int, first side, others ...side) {
	sides := append([]side{first}, others...)
	rates := make([][]float64, len(sides))
	for b.Loop() {
		for range reps {
			for i, s := range sides {
				s.collect(b) // the other sides' garbage is not for this one to sweep
				start := s.cpuTime(b)
				for range s.times {
					if got := s.run(); got != events {
						b.Fatalf("%s: %d events, want %d", s.name, got, events)
					}
				}
				used := s.cpuTime(b) - start
				rates[i] = append(rates[i], float64(events*s.times)/used.Seconds())
			}
		}
	}
	b.ReportMetric(0, "ns/op") // of all sides together, waiting included
	for i, s := range sides {
		b.ReportMetric(median(rates[i]), s.name+"-events/CPU-s")
	}
	b.ReportMetric(median(rates[0])*float64(size)/float64(events)/1e9, first.name+"-GB/CPU-s")
	for i, s := range others {
		ratios := make([]float64, len(rates[0]))
		for j := range ratios {
			ratios[j] = rates[0][j] / rates[i+1][j]
		}
		b.ReportMetric(median(ratios), "x-"+s.name)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
