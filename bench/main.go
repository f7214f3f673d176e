// Bench measures what delivering audit events costs, and prints one table: against
// Fluent Bit's own http output on a real Fluent Bit, and what the plugin does alone
// on the bundled host. `make bench` builds what it needs and runs it.
//
// Exit status: 0, 1 when something could not be measured or an event did not
// arrive, 2 for wrong usage. A missed target is shown, and no failure.
package main

// This file reads the flags and runs the rest.

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

type options struct {
	fluentBit, plugin, floor, host string
	before                         version
	data                           string
	only                           string
	reps, scale                    int
	write                          string
	long, goBench                  bool
}

func main() {
	var o options
	flag.StringVar(&o.fluentBit, "fluent-bit", "", "Fluent Bit's `program`; without it the comparisons with its outputs are left out")
	flag.StringVar(&o.plugin, "plugin", "build/out_k8saudit.so", "the `library` to measure, stripped")
	flag.StringVar(&o.floor, "floor", "build/floor.so", "the `library` of bench/floor")
	flag.StringVar(&o.before.library, "before", "", "the `library` of an earlier version, which takes turns with the plugin; without it that is left out")
	flag.StringVar(&o.before.name, "before-name", "the version before", "what that version is `called`")
	flag.StringVar(&o.host, "host", "build/flbhost", "the bundled host's `program`")
	flag.StringVar(&o.data, "data", cmp.Or(os.Getenv("AUDIT_DATA"), "test/e2e/testdata"), "`folder` with audit-metadata.log.gz and audit-requestresponse.log.gz")
	flag.StringVar(&o.only, "only", "", "measure only what has this `text` in its name, scenario and form (Metadata, raw; growth, parsed; rotation), and write nothing")
	flag.IntVar(&o.reps, "reps", 10, "repetitions of what is not a Go benchmark")
	flag.IntVar(&o.scale, "scale", 1, "divide the sizes of the inputs, to try something")
	flag.StringVar(&o.write, "write", "", "Markdown `file` to put the table into, between its markers")
	flag.BoolVar(&o.long, "long", false, "also what takes minutes: 10 million events, and rotation")
	flag.BoolVar(&o.goBench, "go", true, "also run the Go benchmarks")
	receiving := flag.Bool("receive", false, "be the receiver, until standard input ends")
	delay := flag.Duration("delay", 0, "with -receive: `time` before each answer")
	flag.Parse()
	if flag.NArg() > 0 || o.reps < 1 || o.scale < 1 {
		flag.Usage()
		os.Exit(2)
	}
	var err error
	if *receiving {
		err = receive(*delay)
	} else {
		err = bench(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(o options) error {
	dir, err := os.MkdirTemp(inMemory(), "k8saudit-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	metadata, err := auditLog(filepath.Join(o.data, "audit-metadata.log.gz"))
	if err != nil {
		return err
	}
	var left []string
	rows, steps, err := measureAll(o, dir, metadata)
	if err != nil || o.only != "" {
		fmt.Print(tableText(rows), "\n", stepsText(steps)) // what took long is not to be lost
		return err
	}
	if o.fluentBit == "" {
		left = append(left, "Left out: everything against Fluent Bit's own outputs, and memory in it, for there is no Fluent Bit here (FLUENT_BIT).")
	}
	if o.before.library == "" {
		left = append(left, "Left out: everything against the version before, for there is none here (BENCH_BEFORE).")
	}
	if !o.long {
		left = append(left, "Left out: memory over 10 million events, and rotation, for they take minutes (-long).")
	}
	size, err := librarySize(o.plugin, dir)
	if err != nil {
		return err
	}
	text := "\n" + circumstances(o) + tableText(append(rows, size)) + method
	if steps != nil {
		text += stepsMethod + stepsText(steps) + "\n"
	}
	for _, why := range left {
		text += why + "\n\n"
	}
	if o.goBench {
		summary, err := goBenchmarks(dir)
		if err != nil {
			return err
		}
		text += summary + "\n"
	}
	fmt.Print(text)
	if o.write == "" {
		return nil
	}
	return writeBetween(o.write, text)
}

// inMemory is a folder that no disk is behind, if there is one: Fluent Bit drops what it
// has read from the page cache, so that with a disk much of its CPU time would be the
// kernel's, reading the log again, and not the same each time.
func inMemory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// A measurement is one or several rows of the table, and perhaps steps.
type measurement struct {
	name string
	run  func() ([]row, []stepRow, error)
}

// plain is a measurement without steps.
func plain(name string, run func() ([]row, error)) measurement {
	return measurement{name, func() ([]row, []stepRow, error) {
		rows, err := run()
		return rows, nil, err
	}}
}

// measureAll measures what was asked for. With an error it returns the rows up to there.
func measureAll(o options, dir string, metadata [][]byte) (rows []row, steps []stepRow, err error) {
	b := bundledHost{host: o.host, plugin: o.plugin}
	lines, err := writeLog(filepath.Join(dir, "alone.log"), events(metadata, 152_000/o.scale))
	if err != nil {
		return nil, nil, err
	}
	raw := records{form: "raw", option: "--log", file: lines.path, each: lines.events, events: 3 * lines.events}
	parsed, err := parsedRecords(dir, raw.events)
	if err != nil {
		return nil, nil, err
	}
	var all []measurement
	if o.fluentBit != "" {
		if all, err = onFluentBit(o, b, dir, metadata, raw); err != nil {
			return nil, nil, err
		}
	}
	alone, err := onBundledHost(o, b, dir, metadata, []records{raw, parsed})
	if err != nil {
		return nil, nil, err
	}
	for _, m := range append(all, alone...) {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		r, above, err := m.run()
		rows, steps = append(rows, r...), append(steps, above...)
		if err != nil {
			return rows, steps, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return rows, steps, nil
}

// onFluentBit is what needs a Fluent Bit.
func onFluentBit(o options, b bundledHost, dir string, metadata [][]byte, other records) (all []measurement, err error) {
	compared, err := comparisons(dir, o.data, o.scale)
	if err != nil {
		return nil, err
	}
	e := endToEnd{fluentBit: o.fluentBit, plugin: o.plugin, floor: o.floor, before: o.before, full: filepath.Join(dir, "full"), reps: o.reps}
	if e.one, err = writeLog(filepath.Join(dir, "one.log"), events(metadata, 1)); err != nil {
		return nil, err
	}
	for _, c := range compared {
		c.ledger = c.ledger && o.before.library != ""
		all = append(all, measurement{c.scenario + ", " + c.form, func() ([]row, []stepRow, error) {
			if err := e.fill(c, b, other); err != nil {
				return nil, nil, err
			}
			return e.run(c)
		}})
	}
	for _, c := range compared[:2] {
		c.ledger = false
		all = append(all, plain("memory, "+c.form, func() ([]row, error) { return e.memory(c) }))
	}
	all = append(all, plain("loaded", func() ([]row, error) { return e.loaded(dir) }))
	if o.long {
		all = append(all, plain("rotation", func() ([]row, error) { return e.rotation(metadata, o.scale) }))
	}
	return all, nil
}

// onBundledHost is what the plugin does alone.
func onBundledHost(o options, b bundledHost, dir string, metadata [][]byte, forms []records) (all []measurement, err error) {
	add := func(name string, run func() ([]row, error)) { all = append(all, plain(name, run)) }
	for _, r := range forms {
		add("growth, "+r.form, func() ([]row, error) { return growth(b, r, o.reps) })
	}
	add("concurrency, raw", func() ([]row, error) { return concurrency(b, forms[0].of(forms[0].each), o.reps) })
	for _, n := range []int{10, 1000} {
		add(fmt.Sprintf("latency of %d, raw", n), func() ([]row, error) {
			return latency(b, o.floor, dir, events(metadata, n), o.reps)
		})
	}
	done, err := doneInputs(dir, metadata, forms[1])
	if err != nil {
		return nil, err
	}
	for _, r := range done {
		add("done chunk, "+r.form, func() ([]row, error) { return doneChunk(b, r, o.reps) })
	}
	for _, r := range forms {
		if o.before.library != "" {
			add("remembered memory, "+r.form, func() ([]row, error) {
				return rememberedMemory(b, o.before, r.of(million/o.scale), min(o.reps, 3))
			})
		}
		if o.before.library != "" && o.long {
			add("remembered memory over 10 million, "+r.form, func() ([]row, error) {
				return rememberedMemory(b, o.before, r.of(10*million/o.scale), 1)
			})
		}
		if o.long {
			add("flatness, "+r.form, func() ([]row, error) { return flatness(b, r.of(10*million/o.scale)) })
		}
	}
	return all, nil
}
