package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	stay    bool     // when everything is read, until a signal
	silent  bool     // the receiver gets nothing
}

// runFolder stands in a key's value for a folder that only this run has.
const runFolder = "{folder}"

// usage is what a run took.
type usage struct {
	cpu      float64 // seconds, user and system, of the whole process
	peakAnon int     // kB: the highest RssAnon seen
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
[INPUT]
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
	path, atEnd, flush, parser := p.input.path, "On", "1", ""
	if p.stay {
		atEnd = "Off"
	}
	if p.input.fed != nil {
		path, atEnd, flush = filepath.Join(dir, fedLog), "Off", "0.001"
	}
	if p.parsed {
		parser = "    Parser audit\n"
	}
	conf := fmt.Sprintf(pipelineText, dir, path, p.storage, parser, p.output, atEnd, flush)
	for _, key := range p.keys {
		conf += "    " + strings.ReplaceAll(key, runFolder, dir) + "\n"
	}
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
	for peak := 0; ; {
		select {
		case <-tick.C:
			peak = max(peak, statusKB(r.cmd.Process.Pid, "RssAnon"))
		case err := <-done:
			if err != nil {
				return usage{}, fmt.Errorf("%s: %w\n%s", r.cmd, err, r.log.Bytes())
			}
			state := r.cmd.ProcessState
			return usage{cpu: (state.UserTime() + state.SystemTime()).Seconds(), peakAnon: peak}, nil
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
