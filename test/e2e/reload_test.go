package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file is hot reload: a process that goes on with new instances of the
// plugin, again and again, and loses, repeats and leaks nothing.

// copies makes n logs of one, each event with an auditID of its own.
func copies(lines []string, n int) (all []string) {
	for i := range n {
		for _, line := range lines {
			all = append(all, strings.Replace(line, `"auditID":"`, fmt.Sprintf(`"auditID":"%02d-`, i), 1))
		}
	}
	return all
}

// reload makes the engine read its configuration again and returns how long that
// took.
func (p *process) reload() time.Duration {
	p.t.Helper()
	starts := strings.Count(p.String(), "started, version")
	begin := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	until(p.t, "the plugin was started again", func() bool {
		if p.ended() {
			p.t.Fatal("the process has ended instead of reloading")
		}
		return strings.Count(p.String(), "started, version") > starts
	})
	return time.Since(begin)
}

// footprint is what a process holds.
type footprint struct{ threads, descriptors, anonKB int }

var statusField = regexp.MustCompile(`(?m)^(Threads|RssAnon):\s+(\d+)`)

func (p *process) footprint() (f footprint) {
	p.t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range statusField.FindAllStringSubmatch(string(status), -1) {
		n, _ := strconv.Atoi(m[2])
		if m[1] == "Threads" {
			f.threads = n
		} else {
			f.anonKB = n
		}
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		p.t.Fatal(err)
	}
	f.descriptors = len(fds)
	return f
}

var goroutines = regexp.MustCompile(`the process before this output goroutines=(\d+)`)

// reloadWorkers is how many workers an output has that is reloaded. Fluent Bit
// (2.2 to 5.1.1 at least) starts those of a Go output twice and ends them once;
// the ones that stay look at freed memory, and the process may crash.
func reloadWorkers(e engine) int {
	if _, ok := e.(realFluentBit); ok {
		return 0
	}
	return 1
}

func TestReloadsUnderLoad(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				const reloads = 20
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				lines := copies(auditLog(t, "metadata"), 20)
				r := receive(t, dir, log, "", "-delay", "20ms")
				s := setup{dir: dir, log: log, url: r.url, workers: reloadWorkers(e), keys: "Plugin_Log_Level debug|Mode " + mode}
				interval := 5 * time.Millisecond
				if _, ok := e.(realFluentBit); ok {
					interval *= 10 // it takes a second for each
				}
				write := load(t, e, log, lines, &s, 50, interval)
				p := e.start(t, s)
				written := make(chan struct{})
				go func() { defer close(written); write() }()

				var took []time.Duration
				var held []footprint
				for range reloads {
					before := r.stored()
					until(t, "events are delivered", func() bool { return r.stored() > before || r.stored() >= len(lines) })
					took = append(took, p.reload().Round(time.Millisecond))
					held = append(held, p.footprint())
				}
				<-written
				until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
				ended := p.stop()

				t.Logf("the reloads took %v, the end %v", took, ended.Round(time.Millisecond))
				t.Logf("{threads descriptors RssAnon/kB} after each: %v", held)
				var running []string
				for _, m := range goroutines.FindAllStringSubmatch(p.String(), -1) {
					running = append(running, m[1])
				}
				t.Logf("goroutines before each start: %v", running)
				r.wantAll(len(lines))
			})
		})
	}
}

// A reload at any moment of a webhook that answers slowly: flushes are under way
// when the time to stop is over, and Fluent Bit reads no answers any more.
func TestReloadsWithASlowReceiver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e engine) {
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.log")
		lines := auditLog(t, "metadata")
		r := receive(t, dir, log, "", "-delay", "700ms")
		s := setup{dir: dir, log: log, url: r.url, workers: reloadWorkers(e), grace: 2, keys: "Flush_Timeout 1500ms|Max_Concurrent_Requests 1|Batch_Max_Size 100"}
		write := load(t, e, log, lines, &s, 70, 200*time.Millisecond)
		p := e.start(t, s)
		written := make(chan struct{})
		go func() { defer close(written); write() }()
		for range 6 {
			before := r.stored()
			until(t, "events are delivered", func() bool { return r.stored() > before || r.stored() >= len(lines) })
			p.reload()
		}
		<-written
		until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
		p.stop()
		r.wantAll(len(lines))
	})
}

func TestAReloadWhileTheReceiverIsDown(t *testing.T) {
	for _, mode := range []string{"blocking", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				const bound = (2 + 1 + 2 + 3) * time.Second // Grace, Flush_Timeout, Drain_Timeout, and 3 s
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				lines := auditLog(t, "metadata")
				r := receive(t, dir, log, "", "-delay", "20ms")
				s := setup{dir: dir, log: log, url: r.url, workers: reloadWorkers(e), grace: 2, keys: "Flush_Timeout 1s|Drain_Timeout 2s|Batch_Max_Size 7|Max_Concurrent_Requests 2|Max_Backoff 2s|Mode " + mode}
				write := load(t, e, log, lines, &s, 20, 20*time.Millisecond)
				p := e.start(t, s)
				written := make(chan struct{})
				go func() { defer close(written); write() }()
				until(t, "some events are stored", func() bool { return r.stored() > len(lines)/10 })
				address := r.address()
				r.stop()
				until(t, "the webhook counts as down", func() bool { return strings.Contains(p.String(), "the webhook is down") })
				took := p.reload()
				r = receive(t, dir, log, address)
				<-written
				until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
				ended := p.stop()
				t.Logf("the reload took %v, the end %v", took.Round(time.Millisecond), ended.Round(time.Millisecond))
				if took > bound || ended > bound {
					t.Errorf("want both within %v", bound)
				}
				r.wantAll(len(lines))
			})
		})
	}
}

func TestWorkersThatAReloadLeavesBehindAreToldOf(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, workers := range []int{0, 1} {
			t.Run(fmt.Sprintf("workers %d", workers), func(t *testing.T) {
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				writeLines(t, log, auditLog(t, "metadata")[:1])
				r := receive(t, dir, log, "")
				p := e.start(t, setup{dir: dir, log: log, url: r.url, workers: workers})
				until(t, "the event is stored", func() bool { return r.stored() == 1 })
				p.reload()
				_, told, _ := strings.Cut(p.String(), "has left workers of this output behind")
				told, _, _ = strings.Cut(told, "\n")
				want := ""
				if _, ok := e.(realFluentBit); ok && workers > 0 {
					want = "threads=1"
				}
				if strings.HasSuffix(told, want) != true || (told == "") != (want == "") {
					t.Errorf("told of %q, want %q", told, want)
				}
			})
		}
	})
}
