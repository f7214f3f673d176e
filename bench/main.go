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
	"time"
)

type options struct {
	fluentBit, plugin, floor, host string
	data                           string
	reps, scale                    int
	write                          string
	long                           bool
}

func main() {
	var o options
	flag.StringVar(&o.fluentBit, "fluent-bit", "", "Fluent Bit's `program`; without it the comparisons with its outputs are left out")
	flag.StringVar(&o.plugin, "plugin", "build/out_k8saudit.so", "the `library` to measure, stripped")
	flag.StringVar(&o.floor, "floor", "build/floor.so", "the `library` of bench/floor")
	flag.StringVar(&o.host, "host", "build/flbhost", "the bundled host's `program`")
	flag.StringVar(&o.data, "data", cmp.Or(os.Getenv("AUDIT_DATA"), "test/e2e/testdata"), "`folder` with audit-metadata.log.gz and audit-requestresponse.log.gz")
	flag.IntVar(&o.reps, "reps", 10, "repetitions")
	flag.IntVar(&o.scale, "scale", 1, "divide the sizes of the inputs, to try something")
	flag.StringVar(&o.write, "write", "", "Markdown `file` to put the table into, between its markers")
	flag.BoolVar(&o.long, "long", false, "also deliver 10 million events")
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
	dir, err := os.MkdirTemp("", "k8saudit-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	var rows []row
	if o.fluentBit != "" {
		all, err := comparisons(dir, o.data, o.scale)
		if err != nil {
			return err
		}
		e := endToEnd{fluentBit: o.fluentBit, plugin: o.plugin, floor: o.floor, reps: o.reps}
		for _, c := range all {
			r, err := e.run(c)
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
	}
	text := tableText(rows)
	fmt.Print(text)
	fmt.Fprintf(os.Stderr, "took %v\n", time.Since(begin).Round(time.Second))
	if o.write == "" {
		return nil
	}
	return writeBetween(o.write, text)
}
