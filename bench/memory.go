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
func (e endToEnd) memory(c comparison) (row, error) {
	c.scenario, c.storage = "RssAnon, peak, above null", "filesystem"
	c.steps = nil
	turns, err := e.turns(c)
	if err != nil {
		return row{}, err
	}
	null, http, plugin := turns[0], turns[1], turns[2]
	more := spreadOf(above(plugin.anon, null.anon))
	return row{
		scenario: c.scenario, form: c.form,
		base:   fmt.Sprintf("%.1f MiB", spreadOf(null.anon).median),
		peer:   fmt.Sprintf("%.1f MiB", spreadOf(above(http.anon, null.anon)).median),
		plugin: fmt.Sprintf("%.1f MiB (%.1f–%.1f)", more.median, more.low, more.high),
		target: atMost(more.median, 40),
	}, nil
}

// flatness delivers millions of events on the bundled host and tells RssAnon on the way.
func flatness(b bundledHost, r records) ([]row, error) {
	to, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	const chunk = 2500 // events
	args := append([]string{"--chunk-records", strconv.Itoa(chunk), "--rss-every", strconv.Itoa(1_000_000 / chunk)}, r.args()...)
	run, err := b.run(to, r.events, nil, args...)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "flatness, %s: %v\n", r.form, run.anon)
	var shown []string
	low, high := math.MaxInt, 0
	for _, at := range run.anon {
		million := at.chunks * chunk / 1_000_000
		if million == 0 || at.chunks*chunk%1_000_000 != 0 {
			continue // the reports at the start and the end
		}
		low, high = min(low, at.kB), max(high, at.kB)
		if million == 1 || million == 2 || million == 5 || million == 10 {
			shown = append(shown, fmt.Sprintf("%d M: %.1f", million, float64(at.kB)/1024))
		}
	}
	return []row{{
		scenario: "RssAnon of the bundled host in MiB, after millions of events", form: r.form,
		plugin: strings.Join(shown, ", "),
		ratio:  fmt.Sprintf("%.2f, highest to lowest", float64(high)/float64(low)),
		target: "flat",
	}}, nil
}
