// This file is what the plugin can see of Fluent Bit's threads, which is their
// names: which one it runs on, and those that a reload has left behind.

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// engineThread is the name of the thread that runs Fluent Bit's engine
// (flb_engine.c, flb_lib.c): without workers, flushes run there.
const engineThread = "flb-pipeline"

// workerThread is what the name of each worker of this plugin's outputs begins
// with: flb-out-k8saudit.0-w0 (flb_output_thread.c), which the kernel cuts.
const workerThread = "flb-out-k8saudi"

// onEngineThread says whether the calling goroutine, which must be one that
// Fluent Bit's thread entered through cgo, runs on the engine's thread. The
// plugin cannot read the key workers, so the thread's name is the only way.
func onEngineThread() bool {
	var name [16]byte // TASK_COMM_LEN, prctl(2)
	// The kernel writes at most 16 bytes into name, which lives until the call
	// returns.
	if err := unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
		return false
	}
	return unix.ByteSliceToString(name[:]) == engineThread
}

// workersLeft counts the workers of this plugin's outputs that run after the last
// output has ended. None should be left: Fluent Bit waits for them before. But those
// of Go outputs are started twice and ended once (as of 5.1.1:
// flb_proxy_output_cb_init and flb_output_init_all), and the ones that stay look at
// the memory of the output that was freed, every 1.5 s. It blocks for 100 ms at most,
// since a thread that was waited for may be seen a moment longer.
func workersLeft() int {
	n := workers()
	for range 10 {
		if n == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
		n = workers()
	}
	return n
}

func workers() (n int) {
	names, _ := filepath.Glob("/proc/self/task/*/comm")
	for _, file := range names {
		if name, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(name), workerThread) {
			n++
		}
	}
	return n
}
