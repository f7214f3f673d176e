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
}

// usage is what a run took.
type usage struct {
	cpu      float64 // seconds, user and system, of the whole process
	peakAnon int     // kB: the highest RssAnon seen
}

const pipelineText = `[SERVICE]
    Flush 1
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
    Exit_On_Eof On
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
	dir, err := os.MkdirTemp("", "k8saudit-bench")
	if err != nil {
		return usage{}, err
	}
	defer os.RemoveAll(dir)
	parser := ""
	if p.parsed {
		parser = "    Parser audit\n"
	}
	text := fmt.Sprintf(pipelineText, dir, p.input.path, p.storage, parser, p.output)
	for _, key := range p.keys {
		text += "    " + key + "\n"
	}
	conf := filepath.Join(dir, "fluent-bit.conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return usage{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "parsers.conf"), []byte(parsersText), 0o644); err != nil {
		return usage{}, err
	}
	args := []string{"-c", conf}
	if p.library != "" {
		args = append([]string{"-e", p.library}, args...)
	}
	cmd := exec.Command(fluentBit, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	peak, err := watch(cmd)
	if err != nil {
		return usage{}, fmt.Errorf("%s with output %s: %w\n%s", fluentBit, p.output, err, log.Bytes())
	}
	state := cmd.ProcessState
	return usage{cpu: (state.UserTime() + state.SystemTime()).Seconds(), peakAnon: peak}, nil
}

// longestRun is far beyond any run: only a hang reaches it.
const longestRun = 5 * time.Minute

// watch waits for the process and returns the highest RssAnon that it saw.
func watch(cmd *exec.Cmd) (peak int, err error) {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(longestRun); ; {
		select {
		case err := <-done:
			return peak, err
		case now := <-tick.C:
			peak = max(peak, statusKB(cmd.Process.Pid, "RssAnon"))
			if now.After(end) {
				_ = cmd.Process.Kill()
				<-done
				return peak, fmt.Errorf("has not ended within %v", longestRun)
			}
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
