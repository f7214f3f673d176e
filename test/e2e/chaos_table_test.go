package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file writes what the failures came to into a table between two marker lines
// of a Markdown file, the one that the environment variable CHAOS_TABLE names.

const (
	tableBegin = "<!-- begin: written by make chaos -->\n"
	tableEnd   = "<!-- end: written by make chaos -->\n"
)

// tableRow is what one trial on a real Fluent Bit came to.
type tableRow struct {
	scenario, mode, form string
	result
}

var table struct {
	mu   sync.Mutex
	rows []tableRow
}

// record adds a row to the table, if one is asked for, and writes it anew.
func record(t *testing.T, row tableRow) {
	t.Helper()
	file := os.Getenv("CHAOS_TABLE")
	if file == "" {
		return
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	table.rows = append(table.rows, row)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !ok || !ends {
		t.Fatalf("%s does not have the lines %q and %q", file, tableBegin, tableEnd)
	}
	if err := os.WriteFile(file, []byte(before+tableBegin+tableText(t)+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tableText is the table. The rows of one failure stand together, in the order of
// mode and form.
func tableText(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s with %s and out_k8saudit %s.\n\n", time.Now().Format(time.DateOnly), fluentBitVersion(t), pluginVersion(t))
	b.WriteString("| scenario | mode | form | events | lost | duplicated | altered | requests | time |\n|---|---|---|---|---|---|---|---|---|\n")
	rows := slices.Clone(table.rows)
	slices.SortStableFunc(rows, func(a, b tableRow) int {
		return cmp.Or(strings.Compare(b.mode, a.mode), strings.Compare(b.form, a.form)) // blocking and raw first
	})
	written := map[string]bool{}
	for _, first := range table.rows {
		if written[first.scenario] {
			continue
		}
		written[first.scenario] = true
		for _, r := range rows {
			if r.scenario == first.scenario {
				fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %.1f s |\n", r.scenario, r.mode, r.form,
					r.in, r.lost, r.duplicated, r.altered, r.requests, r.took.Seconds())
			}
		}
	}
	return b.String() + "\n"
}

func fluentBitVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(fluentBit, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// pluginVersion is what the plugin says at its start.
func pluginVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(flbhost, "--plugin", plugin, "--set", "URL=http://127.0.0.1:1/").CombinedOutput()
	_, version, ok := strings.Cut(string(out), "started, version ")
	if err != nil || !ok {
		t.Fatalf("the plugin does not start: %v\n%s", err, out)
	}
	version, _, _ = strings.Cut(version, ",")
	return version
}
