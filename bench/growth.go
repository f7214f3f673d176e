package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file measures on the bundled host how the plugin's time grows: with the size
// of chunks, and with the requests under way.

// growth holds the cost of an event in chunks of 2 MB against that in larger ones, up
// to 100 MB: the CPU time, and the time within the plugin.
func growth(b bundledHost, r records, reps int) ([]row, error) {
	to, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	sizes := []int{2, 10, 50, 100}
	cpu, took := make([][]float64, len(sizes)), make([][]float64, len(sizes))
	for range reps {
		for i, size := range sizes {
			run, err := b.run(to, r.events, nil, append([]string{"--chunk-bytes", strconv.Itoa(size * 1_000_000)}, r.args()...)...)
			if err != nil {
				return nil, err
			}
			cpu[i] = append(cpu[i], run.cpu*1e6/float64(r.events))
			took[i] = append(took[i], run.perEvent(r.events))
			fmt.Fprintf(os.Stderr, "growth, %s: %d MB, %.3f CPU-µs and %.3f µs an event\n", r.form, size, cpu[i][len(cpu[i])-1], took[i][len(took[i])-1])
		}
	}
	show := func(what string, values [][]float64) row {
		var shown []string
		var medians []float64
		for i, size := range sizes {
			medians = append(medians, spreadOf(values[i]).median)
			shown = append(shown, fmt.Sprintf("%d MB: %.2f", size, medians[i]))
		}
		ratio := slices.Max(medians) / slices.Min(medians)
		return row{
			scenario: "growth, " + what + " an event by size of chunk, most to least", form: r.form,
			plugin: strings.Join(shown, ", "), ratio: fmt.Sprintf("%.2f", ratio), target: atMost(ratio, 1.15),
		}
	}
	return []row{show("CPU-µs", cpu), show("µs", took)}, nil
}

// concurrency holds the throughput of 4 concurrent requests against that of 1, with a
// receiver that takes 20 ms for each and chunks of 12 bodies.
func concurrency(b bundledHost, r records, reps int) ([]row, error) {
	to, err := startReceiver(20 * time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	args := append([]string{"--chunk-bytes", "12000000"}, r.args()...)
	took := map[string][]float64{}
	for range reps {
		for _, n := range []string{"1", "4"} {
			run, err := b.run(to, r.events, []string{"Max_Concurrent_Requests=" + n}, args...)
			if err != nil {
				return nil, err
			}
			took[n] = append(took[n], run.perEvent(r.events))
			fmt.Fprintf(os.Stderr, "concurrency, %s: %s requests %.3f µs an event\n", r.form, n, took[n][len(took[n])-1])
		}
	}
	var times []float64
	for i := range took["1"] {
		times = append(times, took["1"][i]/took["4"][i])
	}
	gain := spreadOf(times)
	return []row{{
		scenario: "throughput of 4 concurrent requests to 1, answers after 20 ms", form: r.form,
		plugin: fmt.Sprintf("1: %.2f, 4: %.2f µs an event", spreadOf(took["1"]).median, spreadOf(took["4"]).median),
		ratio:  gain.String(), target: atLeast(gain.median, 3),
	}}, nil
}
