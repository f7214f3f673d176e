package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file runs two outputs of the plugin in one process, each with a log, a tag and
// a receiver of its own.

// branch is what one of the two has.
type branch struct {
	tag   string // and the name of the output
	dir   string
	log   string
	lines []string
	url   string
	keys  string // of the [OUTPUT] section, as in setup
}

// twoBranches have the tags a and b, and different logs.
func twoBranches(t *testing.T, dir string) []*branch {
	t.Helper()
	var all []*branch
	for _, of := range [][2]string{{"a", "metadata"}, {"b", "requestresponse"}} {
		b := &branch{tag: of[0], dir: filepath.Join(dir, of[0]), lines: auditLog(t, of[1])}
		if err := os.Mkdir(b.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.log = filepath.Join(b.dir, "audit.log")
		writeLines(t, b.log, b.lines)
		all = append(all, b)
	}
	return all
}

func (b *branch) keyValues() [][2]string {
	s := setup{url: b.url, keys: "Instance " + b.tag + "|" + b.keys}
	return s.keyValues()
}

// startBranches starts one process with all branches, whose state is in dir.
func startBranches(t *testing.T, e engine, dir string, branches []*branch, grace int) *process {
	t.Helper()
	if _, ok := e.(bundledHost); ok {
		args := []string{
			"--plugin", plugin, "--storage", filepath.Join(dir, "storage"), "--position", filepath.Join(dir, "position"),
			"--retry-base", "0.5", "--retry-cap", "2", "--grace", strconv.Itoa(grace), "--wait-signal", "--chunk-records", "200",
		}
		var inputs []string
		for _, b := range branches {
			args = append(args, "--output", "--match", b.tag, "--workers", "1")
			for _, kv := range b.keyValues() {
				args = append(args, "--set", kv[0]+"="+kv[1])
			}
			inputs = append(inputs, "--tag", b.tag, "--log", b.log)
		}
		return start(t, flbhost, append(args, inputs...)...)
	}
	var conf strings.Builder
	fmt.Fprintf(&conf, "[SERVICE]\n    Flush 0.2\n    Grace %d\n    storage.path %s\n    scheduler.base 1\n    scheduler.cap 5\n",
		grace, filepath.Join(dir, "storage"))
	for _, b := range branches {
		fmt.Fprintf(&conf, "[INPUT]\n    Name tail\n    Path %s\n    Tag %s\n    DB %s\n    Read_from_Head On\n    Buffer_Max_Size 16M\n    storage.type filesystem\n",
			b.log, b.tag, filepath.Join(b.dir, "tail.db"))
		fmt.Fprintf(&conf, "[OUTPUT]\n    Name k8saudit\n    Match %s\n    Workers 1\n    Retry_Limit no_limits\n", b.tag)
		for _, kv := range b.keyValues() {
			fmt.Fprintf(&conf, "    %s %s\n", kv[0], kv[1])
		}
	}
	file := filepath.Join(dir, "fluent-bit.conf")
	if err := os.WriteFile(file, []byte(conf.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, fluentBit, "-q", "-e", plugin, "-c", file)
}

// said are the lines that the output of b wrote with text in them.
func (b *branch) said(p *process, text string) int {
	return len(regexp.MustCompile(`\[output:k8saudit:`+b.tag+`\] [^\n]*`+text).FindAllString(p.String(), -1))
}

// deliverBranches waits until each receiver has the events of its branch, stops, and
// asserts that it has no others and that each output was stopped once.
func deliverBranches(t *testing.T, p *process, branches []*branch, receivers []*receiver) {
	t.Helper()
	for i, b := range branches {
		until(t, "all events of "+b.tag+" are stored", func() bool { return receivers[i].stored() >= len(b.lines) || p.ended() })
	}
	p.stop()
	for i, b := range branches {
		receivers[i].wantAll(len(b.lines))
		if n := b.said(p, `stopped drained=\d`); n != 1 {
			t.Errorf("%s was stopped %d times, want once", b.tag, n)
		}
	}
}

func TestTwoOutputsInOneProcessDoNotMix(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		dir := t.TempDir()
		branches := twoBranches(t, dir)
		var receivers []*receiver
		for _, b := range branches {
			r := receive(t, b.dir, b.log, "")
			b.url = r.url
			receivers = append(receivers, r)
		}
		p := startBranches(t, e, dir, branches, 5)
		deliverBranches(t, p, branches, receivers)
	})
}

func TestTwoDeadReceiversDoNotHoldTheEndAndNothingIsLost(t *testing.T) {
	for how, symptom := range map[string]string{"do not listen": "connection refused", "do not answer": "the webhook is slow"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) { bothDead(t, e, how, symptom) })
		})
	}
}

func bothDead(t *testing.T, e engine, how, symptom string) {
	const grace = 2 // seconds
	dir := t.TempDir()
	branches := twoBranches(t, dir)
	var receivers []*receiver
	for _, b := range branches {
		r := receive(t, b.dir, b.log, "", "-fail-status", "hang")
		if how == "do not listen" {
			r.stop()
		}
		b.url, b.keys = r.url, "Flush_Timeout 1s|Drain_Timeout 2s"
		receivers = append(receivers, r)
	}
	p := startBranches(t, e, dir, branches, grace)
	for _, b := range branches {
		until(t, b.tag+" notices", func() bool { return b.said(p, symptom) > 0 || p.ended() })
	}
	took := p.stop()
	const bound = (grace + 1 + 2 + 3) * time.Second
	t.Logf("the end took %v", took)
	if took > bound {
		t.Errorf("the end took %v, want at most Grace + Flush_Timeout + Drain_Timeout + 3s = %v", took, bound)
	}
	for i, b := range branches {
		if n := b.said(p, "stopped .*drained="); n != 1 {
			t.Errorf("%s was stopped %d times, want once", b.tag, n)
		}
		r := receivers[i]
		_ = r.cmd.Process.Kill() // or it would wait for the requests that hang
		r.wait()
		if n := r.stored(); n != 0 {
			t.Fatalf("%d events of %s stored: its receiver was dead", n, b.tag)
		}
		receivers[i] = receive(t, b.dir, b.log, r.address())
	}
	p = startBranches(t, e, dir, branches, grace)
	deliverBranches(t, p, branches, receivers)
}

func TestABadKeyOfOneOutputStopsTheStartAndIsNamed(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"Mode fast", `[output:k8saudit:b] Mode "fast": not a mode: write blocking or batch`},
		{"Flush_Timout 1s", `[output:k8saudit:b] flush_timout: there is no such key: write Flush_Timeout`},
	} {
		t.Run(tt.key, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				dir := t.TempDir()
				branches := twoBranches(t, dir)
				var receivers []*receiver
				for _, b := range branches {
					r := receive(t, b.dir, b.log, "")
					b.url = r.url
					receivers = append(receivers, r)
				}
				branches[1].keys = tt.key
				p := startBranches(t, e, dir, branches, 5)
				if status := p.wait(); status <= 0 {
					t.Errorf("it ended with %d, want an exit status that says so", status)
				}
				if !strings.Contains(p.String(), tt.want) {
					t.Errorf("the log does not say %s", tt.want)
				}
				if n := branches[0].said(p, "stopped drained=0"); n != 1 {
					t.Errorf("the other output was stopped %d times, want once", n)
				}
				for i, r := range receivers {
					if n := r.stored(); n != 0 {
						t.Errorf("%d events of %s stored", n, branches[i].tag)
					}
				}
			})
		})
	}
}
