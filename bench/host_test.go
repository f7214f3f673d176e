package main

import (
	"slices"
	"testing"
)

func TestTheHostsReportsAreRead(t *testing.T) {
	const log = `flbhost: rss chunks 0 vmrss_kb 9000 anon_kb 2000 threads 7 fds 4
flbhost: rss chunks 400 vmrss_kb 30000 anon_kb 21000 threads 9 fds 5
flbhost: chunks 400 ok 400 retries 0 errors 0 left 0 flushes 400 max_flush_ms 3 exit_ms 0 gap_ms 0
`
	if got, want := memoryOf(log), []memoryAt{{0, 2000}, {400, 21000}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	got, err := numbers("12 3\n45 6\n")
	if err != nil || !slices.EqualFunc(got, [][]float64{{12, 3}, {45, 6}}, slices.Equal) {
		t.Errorf("%v, %v", got, err)
	}
	if got := (hostRun{flushes: got}).perEvent(10); got != 5.7 {
		t.Errorf("%v µs an event, want 5.7", got)
	}
}

func TestARetryIsNoMeasurement(t *testing.T) {
	for line, want := range map[string]bool{
		"flbhost: chunks 4 ok 4 retries 0 errors 0 left 0 flushes 4 max_flush_ms 3": true,
		"flbhost: chunks 4 ok 4 retries 1 errors 0 left 0 flushes 5 max_flush_ms 3": false,
		"flbhost: chunks 4 ok 3 retries 0 errors 1 left 0 flushes 4 max_flush_ms 3": false,
	} {
		if got := summaryLine.MatchString(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}
