package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// This file measures what it costs to remember each event: against the version that did
// not, in CPU time with a full ledger and in memory, and a chunk whose events are done.

// version is the plugin as it was, to hold this one against.
type version struct {
	name    string
	library string // empty: there is none
}

// shippedKeys are those of fluent-bit.conf that decide what is kept on disk.
var shippedKeys = []string{"Dead_Letter_Dir " + runFolder + "/" + ownFolder, "State_Dir " + runFolder + "/" + ownFolder}

// hostKeys are the same for the bundled host.
var hostKeys = []string{"Dead_Letter_Dir=" + runFolder + "/" + ownFolder, "State_Dir=" + runFolder + "/" + ownFolder}

// benchInstance names the output whose ledger is filled in one run and used in the next,
// with another receiver.
const benchInstance = "bench"

// othersFrom is the number of the first event that fills a ledger: none is measured.
const othersFrom = 1 << 31

// fill makes the full ledger that a comparison needs, if it is not there yet.
func (e endToEnd) fill(c comparison, b bundledHost, other records) error {
	if _, err := os.Stat(e.full); err == nil || !c.ledger {
		return nil
	}
	return fullLedger(b, other, e.full)
}

// fullLedger makes the folder, with a ledger of Duplicate_Window other events.
func fullLedger(b bundledHost, r records, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	to, err := startReceiver(0)
	if err != nil {
		return err
	}
	defer to.stop()
	r = r.of(million)
	r.first = othersFrom
	run, err := b.run(to, r.events, []string{"Instance=" + benchInstance, "State_Dir=" + folder}, r.args()...)
	fmt.Fprintf(os.Stderr, "a full ledger: %d events delivered, %s remembered, %d bytes\n", r.events, remembered(run.log), folderSize(folder))
	return err
}

var rememberedField = regexp.MustCompile(` remembered=(\d+)`)

// eventCount is a number of events that may be unknown.
type eventCount int

const unknown eventCount = -1

func (n eventCount) String() string {
	if n == unknown {
		return "an unknown number of"
	}
	return strconv.Itoa(int(n))
}

// remembered is how many events the plugin says at its end that it remembers.
func remembered(log string) eventCount {
	all := rememberedField.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return unknown
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		return unknown
	}
	return eventCount(n)
}

// The last turns of a comparison with ledger: the version before and the plugin with a
// full ledger, and both with a single event, which is the cost of starting and ending.
const (
	turnBefore = iota
	turnFull
	turnBeforeOne
	turnFullOne
	ledgerTurns
)

func (e endToEnd) ledgerOutputs(plugin pipeline) []pipeline {
	out := make([]pipeline, ledgerTurns)
	for i := range out {
		p := plugin
		p.keys = slices.Concat(plugin.keys[:1], []string{"Plugin_Log_Level info", "Instance " + benchInstance}, shippedKeys)
		if i == turnBefore || i == turnBeforeOne {
			p.library = e.before.library
		} else {
			p.state = e.full
		}
		if i == turnBeforeOne || i == turnFullOne {
			p.input = e.one
		}
		out[i] = p
	}
	return out
}

// ledgerRow sets these turns against each other, repetition by repetition. Fluent Bit's
// own thread, which varies by more than what is asked for, is left out of the times.
func (c comparison) ledgerRow(all []turn, before version) row {
	turns := all[len(all)-ledgerTurns:]
	outside := func(t turn) []float64 { return t.outside }
	whole := func(t turn) []float64 { return t.cpu }
	cost := func(of func(turn) []float64, t, one turn) []float64 {
		micros := above(of(t), of(one))
		for i := range micros {
			micros[i] *= 1e6 / float64(c.input.events-1)
		}
		return micros
	}
	more := func(of func(turn) []float64) spread {
		return spreadOf(above(cost(of, turns[turnFull], turns[turnFullOne]), cost(of, turns[turnBefore], turns[turnBeforeOne])))
	}
	plugin := spreadOf(cost(outside, turns[turnFull], turns[turnFullOne])).median
	was := spreadOf(cost(outside, turns[turnBefore], turns[turnBeforeOne])).median
	start := spreadOf(above(turns[turnFullOne].cpu, turns[turnBeforeOne].cpu))
	return row{
		scenario: fmt.Sprintf("%s, State_Dir, %s events remembered: µs of CPU an event more than %s", c.scenario, remembered(turns[turnFullOne].log), before.name),
		form:     c.form,
		peer:     fmt.Sprintf("%s: %.2f µs", before.name, was),
		plugin:   fmt.Sprintf("%.2f µs; to load what is remembered %.2f s", plugin, start.median),
		ratio:    fmt.Sprintf("%s; of the whole process %s", more(outside).signed(), more(whole).signed()),
		target:   atMost(more(outside).median, 0.25),
	}
}

// rememberedMemory holds RssAnon after all of the records, each an event of its own,
// against that of the version before. The ledger's own memory is anonymous.
func rememberedMemory(b bundledHost, before version, r records, reps int) ([]row, error) {
	to, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	var more, each []float64
	var known eventCount
	for range reps {
		var anon [2]float64 // MiB
		for i, library := range []string{before.library, b.plugin} {
			run, err := bundledHost{b.host, library}.run(to, r.events, hostKeys, r.everyMillion()...)
			if err != nil {
				return nil, err
			}
			for _, at := range run.memory {
				anon[i] = max(anon[i], float64(at.anon)/1024)
			}
			known = remembered(run.log)
			fmt.Fprintf(os.Stderr, "memory of %d events, %s: %s %v, %s remembered\n", r.events, r.form, filepath.Base(library), run.memory, known)
		}
		more = append(more, anon[1]-anon[0])
		each = append(each, (anon[1]-anon[0])*(1<<20)/float64(orDelivered(known, r.events)))
	}
	bytes := spreadOf(each)
	return []row{{
		scenario: fmt.Sprintf("RssAnon in bytes for each remembered event, above %s, after %.1f million events, State_Dir", before.name, float64(r.events)/million), form: r.form,
		plugin: fmt.Sprintf("%.1f MiB for %s events", spreadOf(more).median, known),
		ratio:  bytes.String(),
		target: atMost(bytes.median, 20),
	}}, nil
}

// orDelivered is how many events are remembered, or were delivered if that is unknown.
func orDelivered(known eventCount, events int) int {
	if known <= 0 {
		return events
	}
	return int(known)
}

const (
	doneBytes = 2_000_000
	doneTimes = 200
)

// recordStart is how in_tail begins a record, and lineOverhead what it adds to a line.
const (
	recordStart  = "\x92\x92\xd7\x00"
	lineOverhead = 29
)

// doneInputs are a chunk of 2 MB, raw and parsed, that comes again and again as it is.
func doneInputs(dir string, metadata [][]byte, parsed records) ([]records, error) {
	raw := records{form: "raw", option: "--log", file: filepath.Join(dir, "done.log")}
	var lines [][]byte
	for size := 0; ; {
		line := numbered(metadata[len(lines)%len(metadata)], len(lines))
		if size += len(line) + lineOverhead; size > doneBytes {
			break
		}
		lines = append(lines, line)
	}
	if _, err := writeLog(raw.file, lines); err != nil {
		return nil, err
	}
	raw.each = len(lines)
	text, err := os.ReadFile(parsed.file)
	if err != nil {
		return nil, err
	}
	var all []byte
	for n := 0; len(all) <= doneBytes; n += parsed.each {
		all = append(all, numberedRecords(text, n)...)
	}
	all = all[:bytes.LastIndex(all[:doneBytes+len(recordStart)], []byte(recordStart))]
	parsed.file = filepath.Join(dir, "done.msgpack")
	parsed.each = bytes.Count(all, mark)
	return []records{raw, parsed}, os.WriteFile(parsed.file, all, 0o644)
}

// numberedRecords is a copy of msgpack records whose auditIDs begin with numbers, or are
// the last digits of these where they are shorter.
func numberedRecords(records []byte, first int) []byte {
	records = bytes.Clone(records)
	for at := records; ; first++ {
		i := bytes.Index(at, mark)
		if i < 0 {
			return records
		}
		at = at[i+len(mark):]
		head, size := 1, int(at[0]&0x1f)
		if at[0] == 0xd9 {
			head, size = 2, int(at[1])
		}
		digits := fmt.Sprintf("%08x", first)
		copy(at[head:], digits[len(digits)-min(len(digits), size):])
	}
}

// doneChunk takes the time of flushes of a chunk after the first, whose events are all
// done by then.
func doneChunk(b bundledHost, r records, reps int) ([]row, error) {
	to, err := startReceiver(0)
	if err != nil {
		return nil, err
	}
	defer to.stop()
	out := row{scenario: "flush of a chunk of 2 MB whose events are all done", form: r.form}
	var first, again []float64 // ms
	for range reps {
		run, err := b.run(to, r.each, hostKeys, "--chunk-bytes", strconv.Itoa(10*doneBytes), "--repeat", strconv.Itoa(doneTimes), r.option, r.file)
		if err != nil && !errors.Is(err, errEvents) {
			return nil, err
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "done chunk:", err)
			out.target = "≤ 2, **missed: they were sent again**"
		}
		first = append(first, run.flushes[0][0]/1000)
		for _, flush := range run.flushes[1:] {
			again = append(again, flush[0]/1000)
		}
		fmt.Fprintf(os.Stderr, "done chunk, %s: %s ms, the first %.2f ms\n", r.form, spreadOf(again), first[len(first)-1])
	}
	took := spreadOf(again)
	out.plugin = fmt.Sprintf("%s ms for %d events; delivering them %.1f ms", took, r.each, spreadOf(first).median)
	if out.target == "" {
		out.target = atMost(took.median, 2)
	}
	return []row{out}, nil
}
