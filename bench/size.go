package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file measures the library itself: its size, what weighs most in it, and the
// memory of a Fluent Bit that has only just loaded it.

// librarySize is the row for the file, with the modules that weigh most. Their
// weights are the machine code in a build that still has its symbols, without the
// tables that go with it.
func librarySize(plugin, dir string) (row, error) {
	file, err := os.Stat(plugin)
	if err != nil {
		return row{}, err
	}
	full := filepath.Join(dir, "with-symbols.so")
	if out, err := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", full, ".").CombinedOutput(); err != nil {
		return row{}, fmt.Errorf("go build: %w\n%s", err, out)
	}
	symbols, err := output("go", "tool", "nm", "-size", full)
	if err != nil {
		return row{}, err
	}
	list, err := output("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}std{{end}}", ".")
	if err != nil {
		return row{}, err
	}
	weights := moduleSizes(symbols, list)
	own, std := weights["out_k8saudit"], weights["std"]
	delete(weights, "out_k8saudit")
	delete(weights, "std")
	heaviest := slices.SortedFunc(maps.Keys(weights), func(a, b string) int {
		return cmp.Or(weights[b]-weights[a], strings.Compare(a, b))
	})
	var shown []string
	for _, module := range heaviest[:min(3, len(heaviest))] {
		shown = append(shown, fmt.Sprintf("%s %.2f", module, megabytes(weights[module])))
	}
	return row{
		scenario: "size of the stripped library", form: "MB",
		plugin: fmt.Sprintf("%.2f; machine code of Go's own %.2f, %s, of the plugin %.2f",
			megabytes(int(file.Size())), megabytes(std), strings.Join(shown, ", "), megabytes(own)),
	}, nil
}

func megabytes(n int) float64 { return float64(n) / 1e6 }

// moduleSizes adds up symbols (lines of address, size, kind and name) by module,
// given each package's module.
func moduleSizes(symbols, packages string) map[string]int {
	module := map[string]string{"main": "out_k8saudit"}
	for line := range strings.Lines(packages) {
		if fields := strings.Fields(line); len(fields) == 2 {
			module[fields[0]] = fields[1]
		}
	}
	sizes := map[string]int{}
	for line := range strings.Lines(symbols) {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.ToUpper(fields[2]) != "T" {
			continue
		}
		size, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		if m, ok := module[packageOf(fields[3])]; ok {
			sizes[m] += size
		}
	}
	return sizes
}

// packageOf is the path before a symbol's own name. The linker writes a dot in a
// path's last element as %2e.
func packageOf(symbol string) string {
	name, _, _ := strings.Cut(symbol, "[") // type arguments have paths of their own
	dir := strings.LastIndexByte(name, '/') + 1
	element, _, _ := strings.Cut(name[dir:], ".")
	return name[:dir] + strings.ReplaceAll(element, "%2e", ".")
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	return string(out), nil
}

// loaded is the row for what the library adds to a Fluent Bit that does nothing.
func (e endToEnd) loaded(dir string) ([]row, error) {
	in, err := writeLog(filepath.Join(dir, "empty.log"), nil)
	if err != nil {
		return nil, err
	}
	c := comparison{input: in}
	outputs := e.outputs(c, "127.0.0.1:9")
	rss, anon, cpu := make([]int, len(outputs)), make([]int, len(outputs)), make([]float64, len(outputs))
	for i, p := range outputs {
		if rss[i], anon[i], cpu[i], err = p.idle(e.fluentBit); err != nil {
			return nil, err
		}
	}
	show := func(i, less int) string {
		return fmt.Sprintf("%.1f MiB, anonymous %.1f; %.3f s", float64(rss[i]-less*rss[0])/1024, float64(anon[i]-less*anon[0])/1024, cpu[i]-float64(less)*cpu[0])
	}
	return []row{{
		scenario: "nothing to deliver: RSS after two seconds, CPU of start and stop",
		base:     show(0, 0), peer: show(1, 1), plugin: show(2, 1),
	}}, nil
}

// idle is a pipeline's memory in kB when it has had nothing to do for two seconds,
// and the CPU seconds it took to start, do that, and end.
func (p pipeline) idle(fluentBit string) (rss, anon int, cpu float64, err error) {
	p.stay = true
	r, err := p.start(fluentBit)
	if err != nil {
		return 0, 0, 0, err
	}
	time.Sleep(2 * time.Second)
	pid := r.cmd.Process.Pid
	rss, anon = statusKB(pid, "VmRSS"), statusKB(pid, "RssAnon")
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	used, err := r.wait()
	if err != nil {
		return 0, 0, 0, err
	}
	return rss, anon, used.cpu, nil
}
