package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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
	storage    string  // memory if empty
	steps      []step  // on the way to the plugin, the floor first
	ledger     bool    // also the shipped configuration, beside the version before
}

// A step is one more output of a comparison.
type step struct {
	what   string
	plugin bool // the plugin; else bench/floor
	keys   []string
	silent bool // it sends nothing
}

// What is held against the plugin, from the floor up. The plugin stands between.
var (
	floor     = step{what: "bytes copied and posted: the floor"}
	stateDir  = step{what: "the plugin with State_Dir: and what was accepted is on disk", plugin: true, keys: shippedKeys}
	rawSteps  = []step{floor, {what: "lines joined to EventLists", keys: []string{"Events joined"}}, {what: "lines checked", keys: []string{"Events read"}}, stateDir}
	treeSteps = []step{floor, {what: "records converted", keys: []string{"Events read"}}, {what: "timestamps restored", keys: []string{"Events restored"}}, stateDir}
	smallOnes = []step{floor, {what: "posted by hand on the flushing thread, without net/http", keys: []string{"Post by_hand"}},
		{what: "an output in Go that does nothing", keys: []string{"Post never"}, silent: true}}
)

// endToEnd is what the comparisons need.
type endToEnd struct {
	fluentBit, plugin, floor string
	before                   version
	full                     string // a folder with a ledger that is full
	one                      input  // a single event, which that ledger does not have
	reps                     int
}

// turn is what one output came to in each repetition.
type turn struct {
	cpu     []float64 // seconds
	outside []float64 // seconds, without the engine's thread
	anon    []float64 // MiB
	bytes   int       // of the bodies, the last time
	log     string    // of the last time
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
		{scenario: "Metadata", form: "raw", input: small, target: 0.33, steps: rawSteps, ledger: true},
		{scenario: "Metadata", form: "parsed", input: small, parsed: true, target: 0.25, steps: treeSteps, ledger: true},
		{scenario: "RequestResponse", form: "raw", input: big, target: 0.5, steps: []step{floor}},
		{scenario: "RequestResponse", form: "parsed", input: big, parsed: true, target: 0.5, steps: []step{floor}},
		{scenario: "800 kB every 1,000th event", form: "raw", input: among, target: 0.5, steps: []step{floor}},
		{scenario: "800 kB every 1,000th event", form: "parsed", input: among, parsed: true, target: 0.5, steps: []step{floor}},
		{scenario: "Metadata, gzip", form: "raw", input: small, httpKeys: gzip, pluginKeys: gzip, target: 0.6},
		{scenario: "Metadata, gzip", form: "parsed", input: small, parsed: true, httpKeys: gzip, pluginKeys: gzip, target: 0.6},
		{scenario: "chunks of 10 one after another, mode blocking", form: "raw", input: fed, target: 1.7, steps: smallOnes},
		{scenario: "chunks of 10 one after another, mode batch", form: "raw", input: fed, pluginKeys: batch, target: 1},
		{scenario: "chunks of 10 all at once, mode blocking", form: "raw", input: tens, target: 1.7, steps: smallOnes},
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

// run measures a comparison. Its steps, if there are any above the floor, come with it.
func (e endToEnd) run(c comparison) ([]row, []stepRow, error) {
	turns, err := e.turns(c)
	if err != nil {
		return nil, nil, err
	}
	rows := []row{c.row(turns)}
	if c.ledger {
		rows = append(rows, c.ledgerRow(turns, e.before))
	}
	return rows, c.stepRows(turns), nil
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
			t.log = used.log
			t.cpu = append(t.cpu, used.cpu)
			t.outside = append(t.outside, used.outside)
			t.anon = append(t.anon, float64(used.peakAnon)/1024)
			fmt.Fprintf(os.Stderr, "%s, %s: %s %.3f CPU-s, %.3f outside the engine, %d bodies\n", c.scenario, c.form, p.what(), used.cpu, used.outside, got.Bodies)
		}
		// null is in every ratio of the turn, and the machine's speed drifts.
		again, _, err := e.deliver(c, outputs[0], r)
		if err != nil {
			return nil, err
		}
		null := turns[0].cpu
		null[len(null)-1] = (null[len(null)-1] + again.cpu) / 2
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
		if err = c.complete(p, got); !errors.Is(err, errChunks) {
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
	for _, st := range c.steps {
		p := plugin
		if !st.plugin {
			p.output, p.library, p.keys = "floor", e.floor, plugin.keys[:1]
		}
		p.keys = append(slices.Clone(p.keys), st.keys...)
		p.silent = st.silent
		all = append(all, p)
	}
	if c.ledger {
		all = append(all, e.ledgerOutputs(plugin)...)
	}
	return all
}

var errChunks = errors.New("other chunks than were meant")

// complete says whether the receiver got what the output had to send.
func (c comparison) complete(p pipeline, got counts) error {
	output := p.output
	if output == "null" || p.silent {
		return nil
	}
	if got.Events != p.input.events {
		return fmt.Errorf("%s, %s, output %s: %w: %d and not %d", c.scenario, c.form, p.what(), errEvents, got.Events, p.input.events)
	}
	batches := output == "k8saudit" && c.pluginKeys != nil // across chunks
	if least := p.input.chunks - p.input.chunks/20; p.input.chunks > 0 && !batches && (got.Bodies < least || got.Bodies > p.input.chunks) {
		return fmt.Errorf("%s, %s, output %s: %w: %d and not %d", c.scenario, c.form, output, errChunks, got.Bodies, p.input.chunks)
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
	if len(c.steps) > 0 {
		out.floor = spreadOf(ratios(turns[firstStep].cpu, http.cpu, null.cpu)).String()
	}
	return out
}

// firstStep is the index of the first step's turn.
const firstStep = 3

// stepRows sets each step against http, with the plugin where it belongs: before what
// the plugin does only if told to.
func (c comparison) stepRows(turns []turn) (rows []stepRow) {
	if len(c.steps) < 2 {
		return nil
	}
	null, http, plugin := turns[0], turns[1], turns[2]
	against := func(what string, t turn) stepRow {
		return stepRow{c.scenario, c.form, what, spreadOf(ratios(t.cpu, http.cpu, null.cpu)).String()}
	}
	for i, st := range c.steps {
		rows = append(rows, against(st.what, turns[firstStep+i]))
	}
	at := slices.IndexFunc(c.steps, func(st step) bool { return st.plugin })
	if at < 0 {
		at = len(rows)
	}
	return slices.Insert(rows, at, against("the plugin", plugin))
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
