package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file runs one pipeline on a real Fluent Bit, from its start to its end.

// A pipeline is one input and one output. in_tail ends Fluent Bit when it has
// read the whole input; Grace is long enough for what is pending then.
type pipeline struct {
	input   input
	parsed  bool
	output  string   // the name of the output plugin
	keys    []string // of the output, each with its value
	library string   // "" for one of Fluent Bit's own
	storage string   // memory or filesystem
	service []string // more keys of [SERVICE]
	tail    []string // and of [INPUT]
	state   string   // "" or a folder whose files are in the plugin's own when it starts
	stay    bool     // when everything is read, until a signal
	silent  bool     // the receiver gets nothing
}

// what names the pipeline in a report.
func (p pipeline) what() string {
	if p.library == "" {
		return p.output
	}
	return fmt.Sprintf("%s of %s, %d events", p.output, filepath.Base(p.library), p.input.events)
}

// runFolder stands in a key's value for a folder that only this run has, and ownFolder
// is the plugin's within it.
const (
	runFolder = "{folder}"
	ownFolder = "k8saudit"
)

// usage is what a run took.
type usage struct {
	cpu      float64 // seconds, user and system, of the whole process
	outside  float64 // of these, what the engine's thread, which reads and parses, did not take
	peakAnon int     // kB: the highest RssAnon seen
	log      string
}

const pipelineText = `[SERVICE]
    Flush %[7]s
    Grace 60
    Log_Level warn
    scheduler.base 1
    scheduler.cap 5
    storage.path %[1]s/storage
    storage.max_chunks_up 1024
    Parsers_File %[1]s/parsers.conf
%[8]s[INPUT]
    Name tail
    Path %[2]s
    Tag kube.*
    Read_from_Head On
    Exit_On_Eof %[6]s
    Buffer_Max_Size 16M
    storage.type %[3]s
%[4]s[OUTPUT]
    Name %[5]s
    Match *
    Workers 1
    Retry_Limit no_limits
`

const parsersText = `[PARSER]
    Name audit
    Format json
    Time_Key stageTimestamp
    Time_Format %Y-%m-%dT%H:%M:%S.%LZ
`

// run blocks until Fluent Bit has ended, which is when everything is delivered.
func (p pipeline) run(fluentBit string) (usage, error) {
	r, err := p.start(fluentBit)
	if err != nil {
		return usage{}, err
	}
	if p.input.fed != nil {
		go r.feed(p.input.fed)
	}
	return r.wait()
}

// running is a Fluent Bit in a folder of its own.
type running struct {
	cmd *exec.Cmd
	dir string
	log bytes.Buffer
}

func (p pipeline) start(fluentBit string) (*running, error) {
	dir, err := os.MkdirTemp("", "k8saudit-bench")
	if err != nil {
		return nil, err
	}
	if err := copyFiles(p.state, filepath.Join(dir, ownFolder)); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	path, atEnd, flush, tail := p.input.path, "On", "1", p.tail
	if p.stay {
		atEnd = "Off"
	}
	if p.input.fed != nil {
		path, atEnd, flush = filepath.Join(dir, fedLog), "Off", "0.001"
	}
	if p.parsed {
		tail = append(slices.Clone(tail), "Parser audit")
	}
	conf := fmt.Sprintf(pipelineText, dir, path, p.storage, keyLines(tail), p.output, atEnd, flush, keyLines(p.service))
	conf = strings.ReplaceAll(conf+keyLines(p.keys), runFolder, dir)
	for name, text := range map[string]string{"fluent-bit.conf": conf, "parsers.conf": parsersText, fedLog: ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	args := []string{"-c", filepath.Join(dir, "fluent-bit.conf")}
	if p.library != "" {
		args = append([]string{"-e", p.library}, args...)
	}
	r := &running{cmd: exec.Command(fluentBit, args...), dir: dir}
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	if err := r.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

// keyLines are the lines of a section for keys with their values.
func keyLines(keys []string) (lines string) {
	for _, key := range keys {
		lines += "    " + key + "\n"
	}
	return lines
}

// copyFiles makes the folder to, with the files of from if it is not empty.
func copyFiles(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil || from == "" {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, file := range files {
		if !file.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, file.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// longestRun is far beyond any run: only a hang reaches it.
const longestRun = 5 * time.Minute

// wait blocks until Fluent Bit has ended, and removes its folder.
func (r *running) wait() (usage, error) {
	defer os.RemoveAll(r.dir)
	hang := time.AfterFunc(longestRun, func() { _ = r.cmd.Process.Kill() })
	defer hang.Stop()
	done := make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	short := time.NewTicker(10 * time.Millisecond) // what a thread does after the last look is not seen
	defer short.Stop()
	engine := threadClock{pid: r.cmd.Process.Pid, name: "flb-pipeline"}
	for peak := 0; ; {
		select {
		case <-tick.C:
			peak = max(peak, statusKB(r.cmd.Process.Pid, "RssAnon"))
		case <-short.C:
			engine.look()
		case err := <-done:
			if err != nil {
				return usage{}, fmt.Errorf("%s: %w\n%s", r.cmd, err, r.log.Bytes())
			}
			state := r.cmd.ProcessState
			cpu := (state.UserTime() + state.SystemTime()).Seconds()
			return usage{cpu: cpu, outside: cpu - engine.cpu, peakAnon: peak, log: r.log.String()}, nil
		}
	}
}

// statusKB is a value of a process's status in kB, 0 once the process has ended.
func statusKB(pid int, key string) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\n"+key+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kB, _ := strconv.Atoi(fields[0])
	return kB
}

// threadClock looks at the CPU time of a process's thread while it lives.
type threadClock struct {
	pid  int
	name string
	file string  // once the thread was found
	cpu  float64 // seconds, when it was last looked at
}

func (c *threadClock) look() {
	if c.file == "" {
		c.find()
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return
	}
	onCPU, _, _ := strings.Cut(string(text), " ")
	if ns, err := strconv.ParseFloat(onCPU, 64); err == nil {
		c.cpu = ns / 1e9
	}
}

// find looks for the first thread of that name: those that it starts are called the same
// unless they get a name of their own.
func (c *threadClock) find() {
	names, _ := filepath.Glob("/proc/" + strconv.Itoa(c.pid) + "/task/*/comm")
	first := math.MaxInt
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(text)) != c.name {
			continue
		}
		folder := filepath.Dir(name)
		if id, err := strconv.Atoi(filepath.Base(folder)); err == nil && id < first {
			first, c.file = id, filepath.Join(folder, "schedstat")
		}
	}
}
