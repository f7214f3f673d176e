package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// This file holds the comparisons with Fluent Bit's own outputs: the same input to
// null, to http, to the plugin and to the floor, in turn, as often as was asked for.
// What an output costs is the CPU time with it minus that with null in the same turn.

// A comparison is one row of the table.
type comparison struct {
	scenario   string
	form       string
	input      input
	parsed     bool
	httpKeys   []string
	pluginKeys []string
	target     float64 // of the plugin's cost to http's
	floor      bool
	storage    string // memory if empty
}

// endToEnd is what the comparisons need.
type endToEnd struct {
	fluentBit, plugin, floor string
	reps                     int
}

// turn is what one output came to in each repetition.
type turn struct {
	cpu   []float64 // seconds
	anon  []float64 // MiB
	bytes int       // of the bodies, the last time
}

// comparisons writes the inputs into dir and returns the rows to be.
func comparisons(dir, data string, scale int) ([]comparison, error) {
	metadata, err := auditLog(filepath.Join(data, "audit-metadata.log.gz"))
	if err != nil {
		return nil, err
	}
	objects, err := auditLog(filepath.Join(data, "audit-requestresponse.log.gz"))
	if err != nil {
		return nil, err
	}
	small, err := writeLog(filepath.Join(dir, "metadata.log"), events(metadata, 608_000/scale))
	if err != nil {
		return nil, err
	}
	big, err := writeLog(filepath.Join(dir, "requestresponse.log"), events(objects, manyAs(objects, 100_000_000/scale)))
	if err != nil {
		return nil, err
	}
	mixed := events(metadata, 100_000/scale)
	for i := 500; i < len(mixed); i += 1000 {
		mixed[i] = large(mixed[i], 800_000)
	}
	among, err := writeLog(filepath.Join(dir, "large.log"), mixed)
	if err != nil {
		return nil, err
	}
	fed := input{fed: events(metadata, 10_000/scale/smallChunk*smallChunk)}
	fed.events, fed.chunks = len(fed.fed), len(fed.fed)/smallChunk
	tens, err := writeSmallChunks(filepath.Join(dir, "tens"), events(metadata, 50_000/scale))
	if err != nil {
		return nil, err
	}
	gzip, batch := []string{"compress gzip"}, []string{"Mode batch"}
	return []comparison{
		{scenario: "Metadata", form: "raw", input: small, target: 0.33, floor: true},
		{scenario: "Metadata", form: "parsed", input: small, parsed: true, target: 0.25, floor: true},
		{scenario: "RequestResponse", form: "raw", input: big, target: 0.5, floor: true},
		{scenario: "RequestResponse", form: "parsed", input: big, parsed: true, target: 0.5, floor: true},
		{scenario: "800 kB every 1,000th event", form: "raw", input: among, target: 0.5, floor: true},
		{scenario: "800 kB every 1,000th event", form: "parsed", input: among, parsed: true, target: 0.5, floor: true},
		{scenario: "Metadata, gzip", form: "raw", input: small, httpKeys: gzip, pluginKeys: gzip, target: 0.6},
		{scenario: "Metadata, gzip", form: "parsed", input: small, parsed: true, httpKeys: gzip, pluginKeys: gzip, target: 0.6},
		{scenario: "chunks of 10 one after another, mode blocking", form: "raw", input: fed, target: 1.7, floor: true},
		{scenario: "chunks of 10 one after another, mode batch", form: "raw", input: fed, pluginKeys: batch, target: 1},
		{scenario: "chunks of 10 all at once, mode blocking", form: "raw", input: tens, target: 1.7, floor: true},
		{scenario: "chunks of 10 all at once, mode batch", form: "raw", input: tens, pluginKeys: batch, target: 1},
	}, nil
}

// manyAs is how often lines are to be repeated, counted in lines, to have that many
// bytes.
func manyAs(lines [][]byte, size int) int {
	total := 0
	for _, line := range lines {
		total += len(line) + 1
	}
	return (size/total + 1) * len(lines)
}

// run measures a comparison.
func (e endToEnd) run(c comparison) (row, error) {
	turns, err := e.turns(c)
	if err != nil {
		return row{}, err
	}
	return c.row(turns), nil
}

// turns blocks for all repetitions. It fails if a receiver did not get every event.
func (e endToEnd) turns(c comparison) ([]turn, error) {
	r, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	outputs := e.outputs(c, r.address)
	turns := make([]turn, len(outputs))
	for range e.reps {
		for i, p := range outputs {
			used, got, err := e.deliver(c, p, r)
			if err != nil {
				return nil, err
			}
			t := &turns[i]
			t.bytes = got.Bytes
			t.cpu = append(t.cpu, used.cpu)
			t.anon = append(t.anon, float64(used.peakAnon)/1024)
			fmt.Fprintf(os.Stderr, "%s, %s: %s %.3f CPU-s, %d bodies\n", c.scenario, c.form, p.output, used.cpu, got.Bodies)
		}
	}
	return turns, nil
}

// deliver runs a pipeline until its input became the chunks that were meant: on a
// busy machine what is fed piece by piece may be read together.
func (e endToEnd) deliver(c comparison, p pipeline, r *receiver) (used usage, got counts, err error) {
	for range 5 {
		if used, err = p.run(e.fluentBit); err != nil {
			return used, got, err
		}
		if got, err = r.counts(); err != nil {
			return used, got, err
		}
		if err = c.complete(p.output, got); !errors.Is(err, errChunks) {
			return used, got, err
		}
	}
	return used, got, err
}

// outputs are the pipelines of one turn, null first.
func (e endToEnd) outputs(c comparison, address string) []pipeline {
	base := pipeline{input: c.input, parsed: c.parsed, storage: cmp.Or(c.storage, "memory"), output: "null"}
	host, port, _ := net.SplitHostPort(address)
	http := base
	http.output = "http"
	http.keys = append([]string{"Host " + host, "Port " + port, "URI /audit", "Format json"}, c.httpKeys...)
	plugin := base
	plugin.output, plugin.library = "k8saudit", e.plugin
	plugin.keys = append([]string{"URL http://" + address + "/audit", "Plugin_Log_Level warn"}, c.pluginKeys...)
	all := []pipeline{base, http, plugin}
	if c.floor {
		floor := base
		floor.output, floor.library = "floor", e.floor
		floor.keys = []string{"URL http://" + address + "/audit"}
		all = append(all, floor)
	}
	return all
}

var errChunks = errors.New("other chunks than were meant")

// complete says whether the receiver got what the output had to send.
func (c comparison) complete(output string, got counts) error {
	if output == "null" {
		return nil
	}
	if got.Events != c.input.events {
		return fmt.Errorf("%s, %s, output %s: the receiver got %d events of %d", c.scenario, c.form, output, got.Events, c.input.events)
	}
	batches := output == "k8saudit" && c.pluginKeys != nil // across chunks
	if least := c.input.chunks - c.input.chunks/20; c.input.chunks > 0 && !batches && (got.Bodies < least || got.Bodies > c.input.chunks) {
		return fmt.Errorf("%s, %s, output %s: %w: %d and not %d", c.scenario, c.form, output, errChunks, got.Bodies, c.input.chunks)
	}
	return nil
}

// row sets the turns against each other, repetition by repetition.
func (c comparison) row(turns []turn) row {
	null, http, plugin := turns[0], turns[1], turns[2]
	ratio := spreadOf(ratios(plugin.cpu, http.cpu, null.cpu))
	out := row{
		scenario: c.scenario, form: c.form,
		base:   fmt.Sprintf("%.3f s", spreadOf(null.cpu).median),
		peer:   fmt.Sprintf("%.3f s", spreadOf(above(http.cpu, null.cpu)).median),
		plugin: fmt.Sprintf("%.3f s", spreadOf(above(plugin.cpu, null.cpu)).median),
		ratio:  ratio.String(),
		target: atMost(ratio.median, c.target),
	}
	if c.httpKeys != nil {
		// How small the bodies became is part of what compression costs.
		out.peer += fmt.Sprintf(", %.1f MB sent", megabytes(http.bytes))
		out.plugin += fmt.Sprintf(", %.1f MB sent", megabytes(plugin.bytes))
	}
	if c.floor {
		out.floor = spreadOf(ratios(turns[3].cpu, http.cpu, null.cpu)).String()
	}
	return out
}

// above is a minus b, repetition by repetition.
func above(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// ratios is what a costs relative to b, both above null.
func ratios(a, b, null []float64) []float64 {
	out := above(a, null)
	for i, cost := range above(b, null) {
		out[i] /= cost
	}
	return out
}
