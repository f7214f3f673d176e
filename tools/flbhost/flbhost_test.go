// Package flbhost tests the C host in this folder with a scripted C plugin: the order of callbacks, their
// threads, the bytes they get, and what is left when it ends. It needs gcc.
package flbhost

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Built once by TestMain.
var hostPath, staticPath, pluginPath string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		fmt.Println("flbhost: skipped, gcc is not on PATH")
		return 0
	}
	dir, err := os.MkdirTemp("", "flbhost-test-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	sources, err := filepath.Glob("*.c")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	// go test caches a result as long as the files that this process opened are the same: gcc's do not count.
	for _, pattern := range []string{"*.c", "*.h", "testplugin/*.c"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	}
	hostPath = filepath.Join(dir, "flbhost")
	staticPath = filepath.Join(dir, "flbhost-static")
	pluginPath = filepath.Join(dir, "testplugin.so")
	const plugin = "testplugin/testplugin.c"
	flags := []string{"-O2", "-Wall", "-Wextra", "-Werror", "-o"}
	for _, args := range [][]string{
		slices.Concat(flags, []string{hostPath}, sources, []string{"-ldl", "-lpthread"}),
		slices.Concat(flags, []string{staticPath, "-no-pie", "-DFLBHOST_STATIC"}, sources,
			[]string{plugin, "-ldl", "-lpthread"}),
		slices.Concat(flags, []string{pluginPath, "-shared", "-fPIC", plugin, "-lpthread"}),
	} {
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			fmt.Printf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
			return 1
		}
	}
	return m.Run()
}

// synchronous is FLB_OUTPUT_SYNCHRONOUS, as the plugin's registration flags.
const synchronous = "2048"

// host is a running flbhost. What the plugin records comes through a pipe that ends with the process.
type host struct {
	t      *testing.T
	cmd    *exec.Cmd
	record *bufio.Scanner
	stderr bytes.Buffer
	lines  []string
}

func start(t *testing.T, path, flags string, args ...string) *host {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	h := &host{t: t, record: bufio.NewScanner(r)}
	if path == hostPath {
		args = append(args, pluginPath)
	}
	h.cmd = exec.CommandContext(t.Context(), path, args...)
	h.cmd.Stderr = &h.stderr
	h.cmd.ExtraFiles = []*os.File{w}
	h.cmd.Env = append(os.Environ(), "TESTPLUGIN_RECORD=/proc/self/fd/3", "TESTPLUGIN_FLAGS="+flags)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return h
}

// until reads the plugin's record up to a line that starts with prefix.
func (h *host) until(prefix string) {
	h.t.Helper()
	for h.record.Scan() {
		h.lines = append(h.lines, h.record.Text())
		if strings.HasPrefix(h.record.Text(), prefix) {
			return
		}
	}
	h.cmd.Wait()
	h.t.Fatalf("the plugin never recorded %q, but:\n%s\n%s", prefix, strings.Join(h.lines, "\n"), h.stderr.String())
}

func (h *host) signal(s os.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// end reads the record to its end and returns the exit status, -1 after a signal.
func (h *host) end() int {
	h.t.Helper()
	for h.record.Scan() {
		h.lines = append(h.lines, h.record.Text())
	}
	if err := h.cmd.Wait(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			h.t.Fatal(err)
		}
	}
	return h.cmd.ProcessState.ExitCode()
}

func (h *host) mustEnd() {
	h.t.Helper()
	if status := h.end(); status != 0 {
		h.t.Fatalf("exit status %d:\n%s", status, h.stderr.String())
	}
}

// count returns a number of the summary line.
func (h *host) count(name string) int {
	h.t.Helper()
	m := regexp.MustCompile(`(?m)^flbhost: chunks .*$`).FindString(h.stderr.String())
	fields := strings.Fields(m)
	i := slices.Index(fields, name)
	if i < 0 {
		h.t.Fatalf("no %q in the summary:\n%s", name, h.stderr.String())
	}
	n, err := strconv.Atoi(fields[i+1])
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *host) wantCounts(want string) {
	h.t.Helper()
	var got []string
	for _, name := range []string{"chunks", "ok", "retries", "errors", "left", "flushes"} {
		got = append(got, fmt.Sprintf("%s %d", name, h.count(name)))
	}
	if s := strings.Join(got, " "); s != want {
		h.t.Errorf("got %s\nwant %s", s, want)
	}
}

var details = regexp.MustCompile(` tag=\S+ size=\d+ hash=\w+`)

// calls is the record without what flushes were given.
func (h *host) calls() []string {
	out := slices.Clone(h.lines)
	for i := range out {
		out[i] = details.ReplaceAllString(out[i], "")
	}
	return out
}

// chunks is what each flush was given.
func (h *host) chunks() []string {
	var out []string
	for _, l := range h.lines {
		if d := details.FindString(l); d != "" {
			out = append(out, strings.TrimSpace(d))
		}
	}
	return out
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// logFile has n different lines, from the first on.
func logFile(t *testing.T, first, n int) string {
	t.Helper()
	return writeFile(t, "audit.log", logLines(first, n))
}

func logLines(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"kind":"Event","auditID":"%d"}`+"\n", first+i)
	}
	return b.String()
}

// leftChunks maps each chunk file's name to its tag and bytes.
func leftChunks(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := bytes.Cut(b, []byte("\n"))
		out[e.Name()] = string(body)
	}
	return out
}
