package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestAThreadsTimeIsSeenWhileItLives(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if _, err := os.Stat("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/schedstat"); err != nil {
		t.Skip("the kernel has no schedstat")
	}
	clock := threadClock{pid: cmd.Process.Pid, name: "sh"}
	other := threadClock{pid: cmd.Process.Pid, name: "no such thread"}
	for end := time.Now().Add(10 * time.Second); clock.cpu == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		clock.look()
		other.look()
	}
	if want := strconv.Itoa(cmd.Process.Pid); clock.cpu == 0 || filepath.Base(filepath.Dir(clock.file)) != want {
		t.Errorf("%.3f s in %s, want some of thread %s", clock.cpu, clock.file, want)
	}
	if other.cpu != 0 || other.file != "" {
		t.Errorf("a thread that is not there: %+v", other)
	}
}
