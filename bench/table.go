package main

import (
	"fmt"
	"os"
	"strings"
)

// This file writes the table, and puts it between two marker lines of a Markdown
// file.

const (
	tableBegin = "<!-- begin: written by make bench -->\n"
	tableEnd   = "<!-- end: written by make bench -->\n"
)

// row is one line of the table, each cell as it is shown. Empty: does not apply.
type row struct {
	scenario, form string
	base           string // what is subtracted
	peer           string // what the plugin is held against
	plugin         string
	ratio          string
	target         string
	floor          string
}

// atMost shows a target that is an upper bound, and whether it is met.
func atMost(value, target float64) string {
	return bound("≤", target, value <= target)
}

// atLeast shows a target that is a lower bound, and whether it is met.
func atLeast(value, target float64) string {
	return bound("≥", target, value >= target)
}

func bound(sign string, target float64, met bool) string {
	if met {
		return fmt.Sprintf("%s %g, met", sign, target)
	}
	return fmt.Sprintf("%s %g, **missed**", sign, target)
}

func tableText(rows []row) string {
	var b strings.Builder
	b.WriteString("| scenario | form | null | http | k8saudit | ratio | target | floor |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		b.WriteString("|")
		for _, cell := range []string{r.scenario, r.form, r.base, r.peer, r.plugin, r.ratio, r.target, r.floor} {
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// stepRow is one line of the table of steps.
type stepRow struct{ scenario, form, what, ratio string }

func stepsText(rows []stepRow) string {
	var b strings.Builder
	b.WriteString("| scenario | form | step | cost, http 1 |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.scenario, r.form, r.what, r.ratio)
	}
	return b.String()
}

// writeBetween replaces what is between the markers of a file. A file that is
// not there yet is made, with nothing but them.
func writeBetween(file, text string) error {
	old, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		old, err = []byte("# Performance\n\n"+tableBegin+tableEnd), nil
	}
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return fmt.Errorf("%s does not have the lines %q and %q", file, tableBegin, tableEnd)
	}
	return os.WriteFile(file, []byte(before+tableBegin+text+tableEnd+after), 0o644)
}
