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
	flag.StringVar(&o.host, "host", "build/flbhost", "the bundled host's `program`")
	flag.StringVar(&o.data, "data", cmp.Or(os.Getenv("AUDIT_DATA"), "test/e2e/testdata"), "`folder` with audit-metadata.log.gz and audit-requestresponse.log.gz")
	flag.StringVar(&o.only, "only", "", "print the comparisons on Fluent Bit that have this `text` in their name, scenario and form (Metadata, raw), and measure nothing else")
	flag.IntVar(&o.reps, "reps", 10, "repetitions of what is not a Go benchmark")
	flag.IntVar(&o.scale, "scale", 1, "divide the sizes of the inputs, to try something")
	flag.StringVar(&o.write, "write", "", "Markdown `file` to put the table into, between its markers")
	flag.BoolVar(&o.long, "long", false, "also deliver 10 million events")
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
	rows, steps, err := onFluentBit(o, dir)
	if err != nil || o.only != "" {
		fmt.Print(tableText(rows), "\n", stepsText(steps)) // what took long is not to be lost
		return err
	}
	if o.fluentBit == "" {
		left = append(left, "Left out: everything against Fluent Bit's own outputs, and memory in it, for there is no Fluent Bit here (FLUENT_BIT).")
	}
	alone, err := onBundledHost(o, dir, metadata)
	if err != nil {
		return err
	}
	if !o.long {
		left = append(left, "Left out: memory over 10 million events, for it takes minutes (-long).")
	}
	size, err := librarySize(o.plugin, dir)
	if err != nil {
		return err
	}
	text := "\n" + circumstances(o) + tableText(append(append(rows, alone...), size)) + method
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

// onFluentBit measures what needs a Fluent Bit, if there is one. With an error it
// returns the rows up to there.
func onFluentBit(o options, dir string) (rows []row, steps []stepRow, err error) {
	if o.fluentBit == "" {
		return nil, nil, nil
	}
	all, err := comparisons(dir, o.data, o.scale)
	if err != nil {
		return nil, nil, err
	}
	e := endToEnd{fluentBit: o.fluentBit, plugin: o.plugin, floor: o.floor, reps: o.reps}
	measure := func(r row, err error) error {
		if err == nil {
			rows = append(rows, r)
		}
		return err
	}
	for _, c := range all {
		if !strings.Contains(c.scenario+", "+c.form, o.only) {
			continue
		}
		r, above, err := e.run(c)
		if err := measure(r, err); err != nil {
			return rows, steps, err
		}
		steps = append(steps, above...)
	}
	if o.only != "" {
		return rows, steps, nil
	}
	for _, c := range all[:2] {
		if err := measure(e.memory(c)); err != nil {
			return rows, steps, err
		}
	}
	err = measure(e.loaded(dir))
	return rows, steps, err
}

// onBundledHost measures what the plugin does alone.
func onBundledHost(o options, dir string, metadata [][]byte) (rows []row, err error) {
	b := bundledHost{host: o.host, plugin: o.plugin}
	lines, err := writeLog(filepath.Join(dir, "alone.log"), events(metadata, 152_000/o.scale))
	if err != nil {
		return nil, err
	}
	raw := records{form: "raw", option: "--log", file: lines.path, each: lines.events, events: 3 * lines.events}
	parsed, err := parsedRecords(dir, raw.events)
	if err != nil {
		return nil, err
	}
	measure := func(r []row, err error) error {
		rows = append(rows, r...)
		return err
	}
	for _, of := range []records{raw, parsed} {
		if err := measure(growth(b, of, o.reps)); err != nil {
			return nil, err
		}
	}
	if err := measure(concurrency(b, raw.of(raw.each), o.reps)); err != nil {
		return nil, err
	}
	for _, n := range []int{10, 1000} {
		if err := measure(latency(b, o.floor, dir, events(metadata, n), o.reps)); err != nil {
			return nil, err
		}
	}
	if o.long {
		for _, of := range []records{raw, parsed} {
			if err := measure(flatness(b, of.of(10_000_000))); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}
