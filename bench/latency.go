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
// bundled host lets the two alternate on one thread and one connection.

const flushes = 2000

func latency(b bundledHost, dir string, lines [][]byte, reps int) ([]row, error) {
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
	var flush, post, medians, worst, steep []float64
	for range reps {
		run, err := b.run(to, 2*flushes*len(lines), nil, "--post-to", to.address, "--post-body", body,
			"--chunk-records", strconv.Itoa(len(lines)), "--repeat", strconv.Itoa(flushes), "--log", log.path)
		if err != nil {
			return nil, err
		}
		var f, p []float64
		for _, pair := range run.flushes {
			f, p = append(f, pair[0]), append(p, pair[1])
		}
		slices.Sort(f)
		slices.Sort(p)
		medians = append(medians, quantile(f, 0.5)/quantile(p, 0.5))
		worst = append(worst, quantile(f, 0.99)/quantile(p, 0.99))
		steep = append(steep, quantile(f, 0.99)/quantile(p, 0.5))
		flush, post = append(flush, f...), append(post, p...)
		fmt.Fprintf(os.Stderr, "latency, %d events: median %.0f µs to %.0f, p99 %.0f to %.0f\n", len(lines),
			quantile(f, 0.5), quantile(p, 0.5), quantile(f, 0.99), quantile(p, 0.99))
	}
	slices.Sort(flush)
	slices.Sort(post)
	show := func(what string, q, of float64, ratios []float64, target float64) row {
		ratio := spreadOf(ratios)
		return row{
			scenario: fmt.Sprintf("latency of a flush of %d events to a bare POST, %s", len(lines), what), form: "raw",
			peer: fmt.Sprintf("%.0f µs", quantile(post, of)), plugin: fmt.Sprintf("%.0f µs", quantile(flush, q)),
			ratio: ratio.String(), target: atMost(ratio.median, target),
		}
	}
	return []row{
		show("median", 0.5, 0.5, medians, 2),
		show("p99 to p99", 0.99, 0.99, worst, 5),
		show("p99 to median", 0.99, 0.5, steep, 5),
	}, nil
}

// eventList is the body that the plugin makes of raw lines.
func eventList(lines [][]byte) []byte {
	return slices.Concat([]byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`),
		bytes.Join(lines, []byte(",")), []byte("]}"))
}
