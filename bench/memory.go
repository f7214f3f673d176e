package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// This file measures memory: what an output adds to a Fluent Bit at full speed, and
// whether the plugin's stays flat over millions of events.

// memory holds the highest RssAnon with an output against that with null. Chunks are
// files here, which are not anonymous memory, so that what is pending does not count.
func (e endToEnd) memory(c comparison) ([]row, error) {
	c.scenario, c.storage = "RssAnon, peak, above null", "filesystem"
	c.steps = nil
	turns, err := e.turns(c)
	if err != nil {
		return nil, err
	}
	null, http, plugin := turns[0], turns[1], turns[2]
	more := spreadOf(above(plugin.anon, null.anon))
	return []row{{
		scenario: c.scenario, form: c.form,
		base:   fmt.Sprintf("%.1f MiB", spreadOf(null.anon).median),
		peer:   fmt.Sprintf("%.1f MiB", spreadOf(above(http.anon, null.anon)).median),
		plugin: fmt.Sprintf("%.1f MiB (%.1f–%.1f)", more.median, more.low, more.high),
		target: atMost(more.median, 40),
	}}, nil
}

// flatWindow is a Duplicate_Window that is turned over several times by millions of
// events at full speed: at eight times its size, since that takes less than a minute.
const flatWindow = 100_000

// flatness delivers millions of events on the bundled host, with a window that is small
// beside them, and tells RssAnon on the way.
func flatness(b bundledHost, r records) ([]row, error) {
	to, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	keys := append([]string{"Duplicate_Window=" + strconv.Itoa(flatWindow)}, hostKeys...)
	run, err := b.run(to, r.events, keys, r.everyMillion()...)
	if err != nil {
		return nil, err
	}
	known := remembered(run.log)
	fmt.Fprintf(os.Stderr, "flatness, %s: %v, %s remembered, %d bytes in State_Dir\n", r.form, run.memory, known, run.state)
	shown, ratio := flat(run.memory, r.chunk())
	return []row{{
		scenario: fmt.Sprintf("RssAnon of the bundled host in MiB, after millions of events, State_Dir, Duplicate_Window %d", flatWindow), form: r.form,
		plugin: fmt.Sprintf("%s; at the end %s events remembered, %.1f MB in State_Dir", shown, known, megabytes(run.state)),
		ratio:  fmt.Sprintf("%.2f, highest to lowest from 2 M on", ratio),
		target: "flat",
	}}, nil
}

// flat shows some of the reports that came at each million of events, and the highest to
// the lowest of those from the second on, by when the window has been filled.
func flat(reports []memoryAt, chunk int) (shown string, ratio float64) {
	low, high := math.MaxInt, 0
	var texts []string
	for i, at := range reports {
		n := (at.chunks*chunk + million/2) / million
		if n == 0 || i == len(reports)-1 {
			continue // the reports at the start and the end
		}
		if n > 1 {
			low, high = min(low, at.anon), max(high, at.anon)
		}
		if n == 1 || n == 2 || n == 5 || n == 10 {
			texts = append(texts, fmt.Sprintf("%d M: %.1f", n, float64(at.anon)/1024))
		}
	}
	return strings.Join(texts, ", "), float64(high) / float64(low)
}
