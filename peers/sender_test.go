// This file is a sender of the benchmarks: a process of its own for each side, so that
// neither collects the other's garbage.

package peers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// senderEnv, when it is set, makes the test binary a sender: the name of the side and
// of the form, how many events, and the receiver's URL.
const senderEnv = "PEERS_SENDER"

// What a sender is told, a line each, and answers with the same line once it is done.
const (
	sendAll = "send" // all events once
	collect = "collect"
)

// sender is a sender's process.
type sender struct {
	cmd     *exec.Cmd
	tell    io.Writer
	answers *bufio.Scanner
}

// startSender starts a process that prepares n events and sends them, whenever it is
// told to, until the test ends.
func startSender(t testing.TB, side, form string, n int, url string) *sender {
	t.Helper()
	s := &sender{cmd: exec.Command(os.Args[0], "-test.run", "^TestASenderSendsItsEvents$", "-test.timeout", "0")}
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %s", senderEnv, side, form, n, url))
	s.cmd.Stderr = os.Stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.tell, s.answers = stdin, bufio.NewScanner(stdout)
	t.Cleanup(func() {
		stdin.Close()
		for s.answers.Scan() { // what testing prints at its end
		}
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("the sender %s: %v", side, err)
		}
	})
	s.do(t, collect) // it is ready
	return s
}

// do blocks until the sender has done it.
func (s *sender) do(t testing.TB, what string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.tell, what); err != nil {
		t.Fatal(err)
	}
	for s.answers.Scan() {
		if s.answers.Text() == what {
			return
		}
	}
	t.Fatalf("the sender has ended, and did not %s", what)
}

// cpuTime is what its process has used so far, user and system.
func (s *sender) cpuTime(t testing.TB) time.Duration {
	t.Helper()
	// The clock of a process's CPU time (clock_getcpuclockid(3)), by its kernel's number.
	const scheduled = 2
	clock := int32(^s.cmd.Process.Pid)<<3 | scheduled
	var used unix.Timespec
	if err := unix.ClockGettime(clock, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}

// serve is a sender's process. It ends when its standard input does.
func serve(t *testing.T, spec string) {
	var side, form, url string
	var n int
	if _, err := fmt.Sscan(spec, &side, &form, &n, &url); err != nil {
		t.Fatal(err)
	}
	send := sides[side](t, form, n, url)
	for told := bufio.NewScanner(os.Stdin); told.Scan(); {
		switch told.Text() {
		case sendAll:
			send()
		case collect:
			runtime.GC()
		}
		fmt.Println(told.Text())
	}
}

// sides prepare n events of a form, and return what sends them to url.
var sides = map[string]func(t testing.TB, form string, n int, url string) (send func()){
	"plugin": func(t testing.TB, name string, n int, url string) func() {
		config := kubeconfig(t, url)
		for _, f := range forms {
			if f.name == name {
				chunks, _ := chunksOf(t, lines(t, logs["metadata"]), n, f)
				return func() { sendByPlugin(t, config, chunks) }
			}
		}
		t.Fatalf("there is no form %s", name)
		return nil
	},
	"apiserver": func(t testing.TB, _ string, n int, url string) func() {
		events := eventsOf(t, lines(t, logs["metadata"]), n)
		return func() { sendByAPIServer(t, url, events) }
	},
}

// TestASenderSendsItsEvents is, in a process that is to be one, the sender.
func TestASenderSendsItsEvents(t *testing.T) {
	if spec := os.Getenv(senderEnv); spec != "" {
		serve(t, spec)
		return
	}
	const n = 2000
	r := startReceiver(t)
	for side := range sides {
		for _, f := range forms {
			s := startSender(t, side, f.name, n, r.url)
			for range 2 {
				before, used := r.events(t), s.cpuTime(t)
				s.do(t, sendAll)
				if got := r.events(t) - before; got != n {
					t.Errorf("%s, %s: the receiver got %d events, want %d", side, f.name, got, n)
				}
				if s.cpuTime(t) <= used {
					t.Errorf("%s, %s: no CPU time was used", side, f.name)
				}
			}
		}
	}
}
