package e2e

import (
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
	twin    string // a second log under the same tag, for a real Fluent Bit alone
	url     string // "": the keys say where
	keys    string // of the [OUTPUT] section: "Mode batch|Max_Backoff 4s"
	headers string // the key Headers, which may hold a bar
	env     []string
	cwd     string
	workers int
	grace   int // seconds; 0: 5

	timeFormat string // of a JSON parser with stageTimestamp as its time key; "": raw lines

	// What the bundled host sends, for it does not follow a file: chunks of that
	// many lines, and one every so often.
	chunkLines int
	interval   time.Duration

	hostArgs []string // for the bundled host alone
}

func (s *setup) graceSeconds() int {
	if s.grace == 0 {
		return 5
	}
	return s.grace
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

func (realFluentBit) start(t *testing.T, s setup) *process {
	t.Helper()
	conf := filepath.Join(s.dir, "fluent-bit.conf")
	parsers := filepath.Join(s.dir, "parsers.conf")
	parser := ""
	if s.timeFormat != "" {
		parser = "Parser audit"
		text := fmt.Sprintf("[PARSER]\n    Name audit\n    Format json\n    Time_Key stageTimestamp\n    Time_Format %s\n", s.timeFormat)
		if err := os.WriteFile(parsers, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		parsers = "Parsers_File " + parsers
	} else {
		parsers = ""
	}
	var keys strings.Builder
	for _, kv := range s.keyValues() {
		fmt.Fprintf(&keys, "    %s %s\n", kv[0], kv[1])
	}
	var inputs strings.Builder
	for _, log := range []string{s.log, s.twin} {
		if log == "" {
			continue
		}
		fmt.Fprintf(&inputs, `[INPUT]
    Name tail
    Path %s
    Tag kube.audit
    DB %s
    Read_from_Head On
    Buffer_Chunk_Size 512k
    Buffer_Max_Size 16M
    Refresh_Interval 1
    storage.type filesystem
    %s
`, log, filepath.Join(s.dir, filepath.Base(log)+".db"), parser)
	}
	text := fmt.Sprintf(`[SERVICE]
    Flush 0.2
    Grace %d
    Log_Level info
    storage.path %s
    scheduler.base 1
    scheduler.cap 5
    Hot_Reload On
    Hot_Reload.Ensure_Thread_Safety Off
    %s
%s[INPUT]
    Name dummy
    Tag gap
    Rate 10
[OUTPUT]
    Name file
    Match gap
    Path %s
    File %s
[OUTPUT]
    Name k8saudit
    Match kube.audit
    Workers %d
    Retry_Limit no_limits
%s`, s.graceSeconds(), filepath.Join(s.dir, "storage"), parsers, inputs.String(),
		s.dir, filepath.Base(s.gapFile()), s.workers, keys.String())
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return s.run(t, fluentBit, "-q", "-e", plugin, "-c", conf)
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
