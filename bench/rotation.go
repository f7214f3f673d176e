package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// This file measures what rotation costs: in_tail reads a rotated file a second time,
// stores what it reads, and the plugin has to find out that all of it is done.

const (
	rotationRate  = 2000 // events a second
	rotationEvery = time.Minute
	rotations     = 3
	rotationTick  = 50 * time.Millisecond
	rotateWait    = 5 * time.Second
	rescan        = 5 * time.Second // Refresh_Interval
)

// rotated is what a run came to.
type rotated struct {
	cpu     float64
	stored  float64 // MB
	written int     // events
	got     int
}

// rotation writes a log for three minutes, renamed each minute and not at all, to a
// Fluent Bit with the shipped configuration's keys.
func (e endToEnd) rotation(lines [][]byte, scale int) ([]row, error) {
	every := rotationEvery / time.Duration(scale)
	single, err := e.rotate(lines, rotations*every, 0)
	if err != nil {
		return nil, err
	}
	several, err := e.rotate(lines, rotations*every, every)
	if err != nil {
		return nil, err
	}
	return []row{rotationRow(single, several, every)}, nil
}

func rotationRow(single, several rotated, every time.Duration) row {
	show := func(r rotated) string {
		text := fmt.Sprintf("%.2f s, %.0f MB stored", r.cpu, r.stored)
		if r.got != r.written {
			text += fmt.Sprintf(", **%d events arrived for %d**", r.got, r.written)
		}
		return text
	}
	return row{
		scenario: fmt.Sprintf("a rotation every %s beside none, %d events a second for %s: CPU of the whole process, bytes into storage", short(every), rotationRate, short(rotations*every)),
		form:     "raw",
		peer:     "k8saudit, none: " + show(single),
		plugin:   show(several),
		ratio:    fmt.Sprintf("%.2f, stored %.2f", several.cpu/single.cpu, several.stored/single.stored),
	}
}

// short leaves out the seconds of whole minutes.
func short(d time.Duration) string { return strings.Replace(d.String(), "m0s", "m", 1) }

// rotate is one such run: every 0 is one file.
func (e endToEnd) rotate(lines [][]byte, lasts, every time.Duration) (rotated, error) {
	to, err := startReceiver(0)
	if err != nil {
		return rotated{}, err
	}
	defer to.stop()
	port, err := freePort()
	if err != nil {
		return rotated{}, err
	}
	p := pipeline{
		input: input{path: runFolder + "/audit*.log"}, storage: "filesystem", stay: true,
		output: "k8saudit", library: e.plugin,
		service: []string{"HTTP_Server On", "HTTP_Listen 127.0.0.1", "HTTP_Port " + port},
		tail: []string{"DB " + runFolder + "/tail.db", "Buffer_Chunk_Size 512k", "Skip_Long_Lines On",
			fmt.Sprintf("Rotate_Wait %.0f", rotateWait.Seconds()), fmt.Sprintf("Refresh_Interval %.0f", rescan.Seconds())},
		keys: slices.Concat([]string{"URL " + to.url(), "Plugin_Log_Level warn"}, shippedKeys),
	}
	r, err := p.start(e.fluentBit)
	if err != nil {
		return rotated{}, err
	}
	var out rotated
	var failed error
	out.written, failed = writeRotated(r.dir, lines, lasts, every)
	if failed == nil {
		time.Sleep(2*rotateWait + rescan + 3*time.Second) // the second reading of the last file
		out.stored, failed = inputMegabytes(port)
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	used, err := r.wait()
	if err == nil {
		err = failed
	}
	if err != nil {
		return rotated{}, err
	}
	got, err := to.counts()
	out.cpu, out.got = used.cpu, got.Events
	fmt.Fprintf(os.Stderr, "rotation every %s: %+v\n", every, out)
	return out, err
}

// writeRotated appends to audit.log, at rotationRate, and renames it as kube-apiserver
// does. It returns how many events it wrote.
func writeRotated(dir string, lines [][]byte, lasts, every time.Duration) (written int, err error) {
	name := filepath.Join(dir, "audit.log")
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { f.Close() }()
	tick := time.NewTicker(rotationTick)
	defer tick.Stop()
	start := time.Now()
	for done := time.Duration(0); done < lasts; {
		<-tick.C
		before := done
		done = min(time.Since(start), lasts)
		if every > 0 && before/every != done/every && done < lasts {
			rotated := filepath.Join(dir, time.Now().UTC().Format("audit-2006-01-02T15-04-05.000.log"))
			if err := os.Rename(name, rotated); err != nil {
				return written, err
			}
			f.Close()
			if f, err = os.Create(name); err != nil {
				return written, err
			}
		}
		var text bytes.Buffer
		for due := int(done.Seconds() * rotationRate); written < due; written++ {
			text.Write(numbered(lines[written%len(lines)], written))
			text.WriteByte('\n')
		}
		if _, err := f.Write(text.Bytes()); err != nil {
			return written, err
		}
	}
	return written, nil
}

// inputMegabytes is what in_tail put into chunks, by Fluent Bit's own count.
func inputMegabytes(port string) (float64, error) {
	answer, err := http.Get("http://127.0.0.1:" + port + "/api/v1/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var metrics struct {
		Input map[string]struct{ Bytes float64 }
	}
	if err := json.NewDecoder(answer.Body).Decode(&metrics); err != nil {
		return 0, fmt.Errorf("%s: %w", answer.Request.URL, err)
	}
	tail, ok := metrics.Input["tail.0"]
	if !ok {
		return 0, fmt.Errorf("%s knows no input tail.0", answer.Request.URL)
	}
	return tail.Bytes / 1e6, nil
}

// freePort is a port that was free a moment ago.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
