package main

import (
	"bytes"
	"errors"
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
	memory  []memoryAt
	cpu     float64 // seconds, user and system, of the whole process
	log     string
	state   int // bytes in the plugin's folder at the end
}

// memoryAt is a report of the host on itself.
type memoryAt struct {
	chunks int
	anon   int // kB: RssAnon
}

var (
	summaryLine = regexp.MustCompile(`(?m)^flbhost: chunks (\d+) ok (\d+) retries 0 errors 0 left 0 `)
	memoryLine  = regexp.MustCompile(`(?m)^flbhost: rss chunks (\d+) .* anon_kb (\d+) `)
)

// errEvents is a run whose receiver did not get each event once.
var errEvents = errors.New("the receiver got other events than were meant")

// run blocks until all inputs are delivered. It fails if a chunk was tried twice, or
// if the receiver did not get that many events: then, with errEvents, what it came to
// is returned all the same.
func (b bundledHost) run(r *receiver, events int, keys []string, args ...string) (hostRun, error) {
	dir, err := os.MkdirTemp("", "k8saudit-bench")
	if err != nil {
		return hostRun{}, err
	}
	defer os.RemoveAll(dir)
	latency := filepath.Join(dir, "latency")
	all := []string{"--workers", "1", "--latency", latency, "--queue", "2", "--set", "Plugin_Log_Level=info", "--set", "URL=" + r.url()}
	for _, key := range keys {
		all = append(all, "--set", strings.ReplaceAll(key, runFolder, dir))
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
	text, err := os.ReadFile(latency)
	if err != nil {
		return hostRun{}, err
	}
	flushes, err := numbers(string(text))
	if err != nil {
		return hostRun{}, err
	}
	state := cmd.ProcessState
	out := hostRun{
		flushes: flushes, memory: memoryOf(log.String()), cpu: (state.UserTime() + state.SystemTime()).Seconds(),
		log: log.String(), state: folderSize(filepath.Join(dir, ownFolder)),
	}
	if got.Events != events {
		return out, fmt.Errorf("%s: %w: %d and not %d", cmd, errEvents, got.Events, events)
	}
	return out, nil
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

func memoryOf(log string) (out []memoryAt) {
	for _, m := range memoryLine.FindAllStringSubmatch(log, -1) {
		chunks, _ := strconv.Atoi(m[1])
		kB, _ := strconv.Atoi(m[2])
		out = append(out, memoryAt{chunks, kB})
	}
	return out
}

// folderSize is how many bytes the files of a folder have, 0 if there is none.
func folderSize(dir string) (size int) {
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		if info, err := file.Info(); err == nil && info.Mode().IsRegular() {
			size += int(info.Size())
		}
	}
	return size
}

// perEvent is the microseconds that an event took within the plugin.
func (r hostRun) perEvent(events int) float64 {
	total := 0.0
	for _, flush := range r.flushes {
		total += flush[0]
	}
	return total / float64(events)
}
