// This file is what the instances of one process share: their number, their
// list, the drain time, and the name of the engine's thread.

package plugin

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is what the instances in one process share. Version and Log are set
// before its first use. Its methods may be called from any goroutine.
type Process struct {
	Version string
	Log     io.Writer // stderr

	mu        sync.Mutex
	numbered  int
	instances []*Instance
	firstExit time.Time // of the exits under way; zero while there are none
}

// minDrain is the drain time that every instance has, however late it exits.
const minDrain = time.Second

// Init makes an instance of the keys that get reads: see ParseConfig. A failure
// was logged, and leaves nothing behind.
func (p *Process) Init(get func(key string) string) (*Instance, error) {
	p.mu.Lock()
	number := p.numbered
	p.numbered++
	p.firstExit = time.Time{}
	p.mu.Unlock()
	in, err := newInstance(p, number, get)
	if err != nil {
		log := newLogger(p.Log, "config", slog.LevelInfo)
		for _, fault := range strings.Split(err.Error(), "\n") {
			log.Error(fault)
		}
		return nil, err
	}
	p.mu.Lock()
	p.instances = append(p.instances, in)
	p.mu.Unlock()
	return in, nil
}

// Only is the only live instance, nil if there is none or there are several.
func (p *Process) Only() *Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.instances) != 1 {
		return nil
	}
	return p.instances[0]
}

// FlushOnly is Flush for hosts that do not say which instance a chunk is for.
// With several it cannot know and answers Retry.
func (p *Process) FlushOnly(chunk []byte, tag string) Answer {
	if in := p.Only(); in != nil {
		return in.Flush(chunk, tag)
	}
	newLogger(p.Log, "flush", slog.LevelInfo).Error("this host does not say which of several outputs a chunk is for: configure one [OUTPUT] of this plugin, or use Fluent Bit 1.3 or later")
	return Retry
}

// ExitAll exits every live instance, one after another.
func (p *Process) ExitAll() {
	p.mu.Lock()
	all := append([]*Instance(nil), p.instances...)
	p.mu.Unlock()
	for _, in := range all {
		in.Exit()
	}
}

func (p *Process) forget(in *Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.instances {
		if p.instances[i] == in {
			p.instances = append(p.instances[:i], p.instances[i+1:]...)
			break
		}
	}
	if len(p.instances) == 0 {
		p.firstExit = time.Time{}
		p.numbered = 0
	}
}

// drainTime is what is left for an instance that begins to exit. Instances exit
// one after another, so the time counts from the first one's.
func (p *Process) drainTime(configured time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstExit.IsZero() {
		p.firstExit = time.Now()
		return configured
	}
	return max(configured-time.Since(p.firstExit), minDrain)
}

// engineThread is the name of the thread that runs Fluent Bit's engine
// (flb_engine.c, flb_lib.c): without workers, flushes run there.
const engineThread = "flb-pipeline"

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
