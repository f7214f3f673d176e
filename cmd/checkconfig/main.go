// Command checkconfig reads a configuration file of Fluent Bit, classic or YAML, and
// tells what the plugin k8saudit will say of its outputs, without starting anything: a
// hot reload with a bad key ends Fluent Bit, so check first.
//
// The files that keys name are read too: check where Fluent Bit will run, from the
// folder that it runs in, with its environment. What does not concern the outputs of
// this plugin is not checked; for that there is fluent-bit --dry-run.
//
// Exit status: 0 if Fluent Bit would start these outputs, 1 if it would not, or the file
// has none or cannot be read, 2 for a wrong command line.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"out_k8saudit/plugin"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(stderr, "usage: checkconfig FILE\n\nFILE is a configuration of Fluent Bit: YAML if its name ends in .yaml or .yml, classic otherwise.")
		return 2
	}
	file := args[0]
	outputs, err := load(file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	found, faults := 0, 0
	for i := range outputs {
		o := &outputs[i]
		if !strings.EqualFold(o.get("name"), "k8saudit") {
			continue
		}
		found++
		where := fmt.Sprintf("%s: output %d", o.where, i+1)
		for _, fault := range check(o) {
			faults++
			fmt.Fprintf(stdout, "%s: %s\n", where, fault)
		}
		for _, note := range notes(o) {
			fmt.Fprintf(stdout, "%s: note: %s\n", where, note)
		}
	}
	switch {
	case found == 0:
		fmt.Fprintf(stderr, "%s: none of its %d outputs has the name k8saudit\n", file, len(outputs))
		return 1
	case faults > 0:
		fmt.Fprintf(stdout, "%s: k8saudit outputs %d, faults %d: Fluent Bit will not start\n", file, found, faults)
		return 1
	}
	fmt.Fprintf(stdout, "%s: k8saudit outputs %d, faults 0\n", file, found)
	return 0
}

// check returns what keeps the plugin from starting the output.
func check(o *output) (faults []string) {
	if err := plugin.Check(o.get); err != nil {
		faults = strings.Split(err.Error(), "\n")
	}
	if strings.EqualFold(o.get("tls"), "on") {
		faults = append(faults, "tls: Fluent Bit refuses it for a plugin: leave it out, an https URL is enough")
	}
	return faults
}

// notes returns what is likely not meant, though it starts.
func notes(o *output) (notes []string) {
	notes = append(notes, o.notes...)
	for _, name := range []string{"host", "port"} {
		if o.get(name) != "" {
			notes = append(notes, name+": Fluent Bit keeps it for itself and the plugin never sees it: write it into URL")
		}
	}
	if o.get("retry_limit") == "" {
		notes = append(notes, "retry_limit is not set: Fluent Bit drops a chunk after one retry; set it to no_limits")
	}
	if o.get("workers") == "" {
		notes = append(notes, "workers is not set: a slow webhook holds up Fluent Bit's engine; set it to 1")
	}
	return notes
}
