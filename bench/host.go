package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// This file runs the plugin on the bundled host, which loads it as Fluent Bit does.

// bundledHost is the host and what it loads.
type bundledHost struct {
	host, plugin string
}

// hostRun is what one run came to.
type hostRun struct {
	flushes [][]float64 // microseconds of each; with a bare POST in between, those of the POST as well
	anon    []anonAt
	cpu     float64 // seconds, user and system, of the whole process
}

// anonAt is a report of the host on itself.
type anonAt struct {
	chunks int
	kB     int // RssAnon
}

var (
	summaryLine = regexp.MustCompile(`(?m)^flbhost: chunks (\d+) ok (\d+) retries 0 errors 0 left 0 `)
	anonLine    = regexp.MustCompile(`(?m)^flbhost: rss chunks (\d+) .* anon_kb (\d+) `)
)

// run blocks until all inputs are delivered. It fails if a chunk was tried twice, or
// if the receiver did not get that many events.
func (b bundledHost) run(r *receiver, events int, keys []string, args ...string) (hostRun, error) {
	dir, err := os.MkdirTemp("", "k8saudit-bench")
	if err != nil {
		return hostRun{}, err
	}
	defer os.RemoveAll(dir)
	latency := filepath.Join(dir, "latency")
	all := []string{"--workers", "1", "--latency", latency, "--queue", "2", "--set", "Plugin_Log_Level=warn", "--set", "URL=" + r.url()}
	for _, key := range keys {
		all = append(all, "--set", key)
	}
	var log bytes.Buffer
	cmd := exec.Command(b.host, append(append(all, args...), b.plugin)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return hostRun{}, err
	}
	hang := time.AfterFunc(longestRun, func() { _ = cmd.Process.Kill() })
	defer hang.Stop()
	if err := cmd.Wait(); err != nil || !summaryLine.Match(log.Bytes()) {
		return hostRun{}, fmt.Errorf("%s: %v; a chunk was refused, or worse:\n%s", cmd, err, log.Bytes())
	}
	got, err := r.counts()
	if err != nil {
		return hostRun{}, err
	}
	if got.Events != events {
		return hostRun{}, fmt.Errorf("%s: the receiver got %d events of %d", cmd, got.Events, events)
	}
	text, err := os.ReadFile(latency)
	if err != nil {
		return hostRun{}, err
	}
	flushes, err := numbers(string(text))
	state := cmd.ProcessState
	return hostRun{flushes, anonOf(log.String()), (state.UserTime() + state.SystemTime()).Seconds()}, err
}

// numbers reads lines of numbers.
func numbers(text string) (out [][]float64, err error) {
	for line := range strings.Lines(text) {
		var row []float64
		for _, field := range strings.Fields(line) {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, err
			}
			row = append(row, n)
		}
		out = append(out, row)
	}
	return out, nil
}

func anonOf(log string) (out []anonAt) {
	for _, m := range anonLine.FindAllStringSubmatch(log, -1) {
		chunks, _ := strconv.Atoi(m[1])
		kB, _ := strconv.Atoi(m[2])
		out = append(out, anonAt{chunks, kB})
	}
	return out
}

// perEvent is the microseconds that an event took within the plugin.
func (r hostRun) perEvent(events int) float64 {
	total := 0.0
	for _, flush := range r.flushes {
		total += flush[0]
	}
	return total / float64(events)
}
