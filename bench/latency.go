package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// This file holds flushes of one body each against bare POSTs of the same body. The
// bundled host lets the two alternate on one thread and one connection. The same with the
// floor in the plugin's place shows what of it is Go's HTTP client within a callback.

const flushes = 2000

func latency(b bundledHost, floorLibrary, dir string, lines [][]byte, reps int) ([]row, error) {
	log, err := writeLog(filepath.Join(dir, "latency.log"), lines)
	if err != nil {
		return nil, err
	}
	body := filepath.Join(dir, "latency.json")
	if err := os.WriteFile(body, eventList(lines), 0o644); err != nil {
		return nil, err
	}
	to, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	args := []string{"--post-to", to.address, "--post-body", body,
		"--chunk-records", strconv.Itoa(len(lines)), "--distinct", "0", "--repeat", strconv.Itoa(flushes), "--log", log.path}
	sides := []*latencySide{
		{host: b},
		{host: bundledHost{host: b.host, plugin: floorLibrary}},
		{host: bundledHost{host: b.host, plugin: floorLibrary}, what: "lines checked", keys: []string{"Events=read"}},
		{host: bundledHost{host: b.host, plugin: floorLibrary}, what: "by hand", keys: []string{"Post=by_hand"}},
	}
	for range reps {
		for _, side := range sides {
			run, err := side.host.run(to, 2*flushes*len(lines), side.keys, args...)
			if err != nil {
				return nil, err
			}
			side.add(run.flushes)
			fmt.Fprintf(os.Stderr, "latency, %d events: %s %s, median %.2f times a bare POST\n", len(lines), filepath.Base(side.host.plugin), side.what, side.medians[len(side.medians)-1])
		}
	}
	plugin := sides[0]
	slices.Sort(plugin.flush)
	slices.Sort(plugin.post)
	show := func(what string, q, of float64, ratios func(*latencySide) []float64, target float64) row {
		ratio := spreadOf(ratios(plugin))
		floor := spreadOf(ratios(sides[1])).String()
		for _, side := range sides[2:] {
			floor += fmt.Sprintf(", %s %.2f", side.what, spreadOf(ratios(side)).median)
		}
		return row{
			scenario: fmt.Sprintf("latency of a flush of %d events to a bare POST, %s", len(lines), what), form: "raw",
			peer: fmt.Sprintf("%.0f µs", quantile(plugin.post, of)), plugin: fmt.Sprintf("%.0f µs", quantile(plugin.flush, q)),
			ratio: ratio.String(), target: atMost(ratio.median, target), floor: floor,
		}
	}
	return []row{
		show("median", 0.5, 0.5, func(l *latencySide) []float64 { return l.medians }, 2),
		show("p99 to p99", 0.99, 0.99, func(l *latencySide) []float64 { return l.worst }, 5),
		show("p99 to median", 0.99, 0.5, func(l *latencySide) []float64 { return l.steep }, 5),
	}, nil
}

// latencySide is the plugin, or the floor in one of its ways: the latencies of all its
// runs, in microseconds, and the ratios within each.
type latencySide struct {
	host bundledHost
	what string
	keys []string

	flush, post           []float64
	medians, worst, steep []float64
}

// add takes what a run came to: pairs of a flush and the bare POST after it.
func (l *latencySide) add(pairs [][]float64) {
	var f, p []float64
	for _, pair := range pairs {
		f, p = append(f, pair[0]), append(p, pair[1])
	}
	slices.Sort(f)
	slices.Sort(p)
	l.medians = append(l.medians, quantile(f, 0.5)/quantile(p, 0.5))
	l.worst = append(l.worst, quantile(f, 0.99)/quantile(p, 0.99))
	l.steep = append(l.steep, quantile(f, 0.99)/quantile(p, 0.5))
	l.flush, l.post = append(l.flush, f...), append(l.post, p...)
}

// eventList is the body that the plugin makes of raw lines.
func eventList(lines [][]byte) []byte {
	return slices.Concat([]byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`),
		bytes.Join(lines, []byte(",")), []byte("]}"))
}
