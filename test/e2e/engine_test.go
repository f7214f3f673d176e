package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file is the two hosts that the scenarios run on: the bundled one and a
// real Fluent Bit.

// setup is one pipeline: an audit log, the plugin, a second output beside it.
type setup struct {
	dir     string // of the pipeline's state: storage, position, gaps
	log     string
	url     string // "": the keys say where
	keys    string // of the [OUTPUT] section: "Mode batch|Max_Backoff 4s"
	headers string // the key Headers, which may hold a bar
	env     []string
	cwd     string
	workers int
	grace   int // seconds; 0: 5

	timeFormat string // of a JSON parser with stageTimestamp as its time key; "": raw lines

	// For a real Fluent Bit alone.
	inputs     []input  // none: one that reads log
	outputs    []output // none: one that gets all of it
	rotateWait int      // seconds; 0: 5
	refresh    int      // Refresh_Interval in seconds; 0: 1
	retryBase  int      // scheduler.base in seconds; 0: 1
	retryCap   int      // scheduler.cap in seconds; 0: 5

	// What the bundled host sends, for it does not follow a file: chunks of that
	// many lines, and one every so often.
	chunkLines int
	interval   time.Duration

	hostArgs []string // for the bundled host alone
}

// input is one that reads a log.
type input struct {
	path string // a name, or a pattern for a log that is rotated
	tag  string // "": kube.audit
}

// output is an [OUTPUT] section of the plugin. All of a setup have its keys.
type output struct {
	match   string
	headers string // the key Headers
}

// parserTime is the Time_Format that keeps all of an event's time.
const parserTime = "%Y-%m-%dT%H:%M:%S.%LZ"

func (s *setup) graceSeconds() int { return cmp.Or(s.grace, 5) }

// positions is the database in which the input of that number keeps how far it read.
func (s *setup) positions(input int) string {
	return filepath.Join(s.dir, fmt.Sprintf("tail%d.db", input))
}

// keyValues are the keys of the [OUTPUT] section.
func (s *setup) keyValues() (pairs [][2]string) {
	for _, kv := range [][2]string{{"URL", s.url}, {"Headers", s.headers}} {
		if kv[1] != "" {
			pairs = append(pairs, kv)
		}
	}
	for _, kv := range strings.Split(s.keys, "|") {
		if k, v, ok := strings.Cut(kv, " "); ok {
			pairs = append(pairs, [2]string{k, v})
		}
	}
	return pairs
}

// chunksStored are the chunks that the engine keeps for the plugin.
func (s *setup) chunksStored(t *testing.T) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(s.dir, "storage"), func(_ string, f os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist): // answered in this moment
		case err != nil:
			return err
		case f.Type().IsRegular():
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run starts a host in the setup's folder and environment.
func (s *setup) run(t *testing.T, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.cwd, append(os.Environ(), s.env...)
	return startCommand(t, cmd)
}

// hasRead says whether the bundled host is at the end of the log.
func (s *setup) hasRead(t *testing.T) bool {
	t.Helper()
	log, err := os.Stat(s.log)
	if err != nil {
		t.Fatal(err)
	}
	position, err := os.ReadFile(filepath.Join(s.dir, "position"))
	return err == nil && strings.Contains(string(position), fmt.Sprintf(" %d %s\n", log.Size(), s.log))
}

func (s *setup) gapFile() string { return filepath.Join(s.dir, "gap.txt") }

// engine starts pipelines. Both stay until they are stopped, and read the log
// from where they were stopped.
type engine interface {
	start(t *testing.T, s setup) *process
}

type bundledHost struct{}

func (bundledHost) start(t *testing.T, s setup) *process {
	t.Helper()
	args := []string{
		"--plugin", plugin, "--storage", filepath.Join(s.dir, "storage"), "--position", filepath.Join(s.dir, "position"),
		"--retry-base", "0.5", "--retry-cap", "2", "--grace", strconv.Itoa(s.graceSeconds()), "--wait-signal",
		"--gap-output", s.gapFile(), "--workers", strconv.Itoa(s.workers),
	}
	for _, kv := range s.keyValues() {
		args = append(args, "--set", kv[0]+"="+kv[1])
	}
	if s.chunkLines > 0 {
		args = append(args, "--chunk-records", strconv.Itoa(s.chunkLines))
	}
	if s.interval > 0 {
		args = append(args, "--interval", strconv.FormatInt(s.interval.Milliseconds(), 10))
	}
	args = append(args, s.hostArgs...)
	return s.run(t, flbhost, append(args, "--log", s.log)...)
}

type realFluentBit struct{}

func (e realFluentBit) start(t *testing.T, s setup) *process {
	t.Helper()
	return s.run(t, fluentBit, "-q", "-e", plugin, "-c", e.configure(t, s))
}

// configure writes the configuration of a pipeline, which a process that runs it reads
// at its start and at a reload, and returns the file's name.
func (realFluentBit) configure(t *testing.T, s setup) string {
	t.Helper()
	file := func(name, text string) string {
		name = filepath.Join(s.dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var conf strings.Builder
	section := func(name string, keys ...string) {
		fmt.Fprintf(&conf, "[%s]\n", name)
		for _, key := range keys {
			fmt.Fprintf(&conf, "    %s\n", key)
		}
	}
	service := []string{
		"Flush 0.2", fmt.Sprintf("Grace %d", s.graceSeconds()), "Log_Level info", "storage.path " + filepath.Join(s.dir, "storage"),
		fmt.Sprintf("scheduler.base %d", cmp.Or(s.retryBase, 1)), fmt.Sprintf("scheduler.cap %d", cmp.Or(s.retryCap, 5)),
		"Hot_Reload On", "Hot_Reload.Ensure_Thread_Safety Off",
	}
	var parser []string
	if s.timeFormat != "" {
		text := fmt.Sprintf("[PARSER]\n    Name audit\n    Format json\n    Time_Key stageTimestamp\n    Time_Format %s\n", s.timeFormat)
		service = append(service, "Parsers_File "+file("parsers.conf", text))
		parser = []string{"Parser audit"}
	}
	section("SERVICE", service...)
	inputs := s.inputs
	if inputs == nil {
		inputs = []input{{path: s.log}}
	}
	for i, in := range inputs {
		section("INPUT", append([]string{
			"Name tail", "Path " + in.path, "Tag " + cmp.Or(in.tag, "kube.audit"), "DB " + s.positions(i), "Read_from_Head On",
			"Buffer_Chunk_Size 512k", "Buffer_Max_Size 16M", "storage.type filesystem",
			fmt.Sprintf("Rotate_Wait %d", cmp.Or(s.rotateWait, 5)), fmt.Sprintf("Refresh_Interval %d", cmp.Or(s.refresh, 1)),
		}, parser...)...)
	}
	section("INPUT", "Name dummy", "Tag gap", "Rate 10")
	section("OUTPUT", "Name file", "Match gap", "Path "+s.dir, "File "+filepath.Base(s.gapFile()))
	outputs := s.outputs
	if outputs == nil {
		outputs = []output{{match: "kube.*"}}
	}
	for _, out := range outputs {
		own := s
		own.headers = cmp.Or(out.headers, s.headers)
		keys := []string{"Name k8saudit", "Match " + out.match, fmt.Sprintf("Workers %d", s.workers), "Retry_Limit no_limits"}
		for _, kv := range own.keyValues() {
			keys = append(keys, kv[0]+" "+kv[1])
		}
		section("OUTPUT", keys...)
	}
	return file("fluent-bit.conf", conf.String())
}

// onEach runs a scenario on each engine.
func onEach(t *testing.T, scenario func(t *testing.T, e engine)) {
	t.Run("bundled host", func(t *testing.T) { scenario(t, bundledHost{}) })
	onFluentBit(t, func(t *testing.T) { scenario(t, realFluentBit{}) })
}

// onFluentBit runs a test that needs a real Fluent Bit.
func onFluentBit(t *testing.T, test func(t *testing.T)) {
	t.Run("fluent-bit", func(t *testing.T) {
		if fluentBit == "" {
			t.Skip("no Fluent Bit here: set FLUENT_BIT to test on one")
		}
		test(t)
	})
}

// load makes the log of a scenario that is about time: the bundled host takes
// chunks of lines in intervals, while for a real Fluent Bit the lines are
// appended as an API server would. It returns when all lines are written.
func load(t *testing.T, e engine, log string, lines []string, s *setup, chunkLines int, interval time.Duration) (write func()) {
	t.Helper()
	if _, ok := e.(bundledHost); ok {
		writeLines(t, log, lines)
		s.chunkLines, s.interval = chunkLines, interval
		return func() {}
	}
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		defer f.Close()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for len(lines) > 0 {
			n := min(chunkLines, len(lines))
			if _, err := f.WriteString(strings.Join(lines[:n], "\n") + "\n"); err != nil {
				t.Error(err)
				return
			}
			lines = lines[n:]
			<-tick.C
		}
	}
}
