// This file spreads events over time.

package main

import (
	"context"
	"time"
)

const (
	// tick is how often events are due together: fewer and larger writes at high rates.
	tick = 10 * time.Millisecond
	// group bounds the events that are let through at once, so that a stop need not
	// wait for more than these.
	group = 100
)

// pacer lets events through at a rate. Of rate r, r×t have been let through a time t
// after the start, give or take a tick: a stall is made up for, and nothing drifts.
type pacer struct {
	rate  int // events a second; 0: as fast as they are taken
	start time.Time
	taken int
}

func newPacer(rate int) *pacer { return &pacer{rate: rate, start: time.Now()} }

// wait blocks until events are due and says how many, at least 1 and at most group. It
// returns 0 as soon as ctx is done.
func (p *pacer) wait(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	if p.rate == 0 {
		return group
	}
	due := p.due()
	if due == 0 {
		next := offset(p.taken+1, p.rate)
		next = (next + tick - 1).Truncate(tick)
		timer := time.NewTimer(next - time.Since(p.start))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0
		}
		due = p.due()
	}
	due = min(due, group)
	p.taken += due
	return due
}

// due is how many events have their time and were not let through.
func (p *pacer) due() int {
	passed := time.Since(p.start)
	return int(passed/time.Second)*p.rate + int(passed%time.Second)*p.rate/int(time.Second) - p.taken
}

// offset is when the nth event (from 1) is due after the start, rounded up.
func offset(n, rate int) time.Duration {
	rest := time.Duration(n%rate) * time.Second
	return time.Duration(n/rate)*time.Second + (rest+time.Duration(rate)-1)/time.Duration(rate)
}
