package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// This file runs the Go benchmarks of the packages, and of peers/, and has benchstat
// sum them up.

const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"

// count is how often each benchmark runs, so that benchstat can tell a difference of a
// tenth from chance.
const count = 10

// goBenchmarks returns the summary as a block of code.
func goBenchmarks(dir string) (string, error) {
	var all strings.Builder
	for _, of := range []struct {
		name, module string
		packages     []string
	}{
		{"out_k8saudit", ".", []string{"./plugin/...", "./batch/..."}},
		{"peers", "peers", []string{"./..."}},
	} {
		args := append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-count", strconv.Itoa(count), "-timeout", "60m"}, of.packages...)
		cmd := exec.Command("go", args...)
		cmd.Dir = of.module
		fmt.Fprintf(os.Stderr, "%s in %s\n", cmd, of.module)
		text, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s in %s: %w\n%s", cmd, of.module, err, text)
		}
		if !strings.Contains(string(text), "\nBenchmark") {
			continue
		}
		file := filepath.Join(dir, "go-bench.txt")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return "", err
		}
		summary, err := output("go", "run", benchstat, of.name+"="+file)
		if err != nil {
			return "", err
		}
		all.WriteString(summary)
	}
	if all.Len() == 0 {
		return "There are no Go benchmarks.\n", nil
	}
	return "```\n" + all.String() + "```\n", nil
}
