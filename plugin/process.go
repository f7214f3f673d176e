// This file is what the instances of one process share: their number, their
// list, and the drain time.

package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Process is what the instances in one process share. Version and Log are set
// before its first use. Its methods may be called from any goroutine.
type Process struct {
	Version string
	Log     io.Writer // stderr

	leaving atomic.Bool // the instance that exits next makes room for another one

	mu        sync.Mutex
	numbered  int
	instances []*Instance
	left      []*handover // by instances that have exited, for the next ones
	firstExit time.Time   // of the exits under way; zero while there are none
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
		name := get("Instance")
		if name == "" {
			name = strconv.Itoa(number)
		}
		log := newLogger(p.Log, printable(name, 100), slog.LevelInfo)
		for _, fault := range strings.Split(err.Error(), "\n") {
			log.Error(fault)
		}
		p.noHeirs() // Fluent Bit ends
		return nil, err
	}
	p.mu.Lock()
	p.instances = append(p.instances, in)
	p.mu.Unlock()
	return in, nil
}

// PreExit is told before each Exit whether that is because of a reload: then
// another instance may follow.
func (p *Process) PreExit(reload bool) { p.leaving.Store(reload) }

// outputID is the ID of an output: what its files are named after, and its ledger, which
// an instance after a reload or a restart goes on with. It comes from Instance where that
// is set, else from the destination and the output's ordinal among those that have the
// same.
func (p *Process) outputID(instance, destination string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ordinal := 0; ; ordinal++ {
		of := fmt.Sprintf("destination %q %d", destination, ordinal)
		if instance != "" {
			of = fmt.Sprintf("instance %q", instance)
		}
		sum := sha256.Sum256([]byte(of))
		id := hex.EncodeToString(sum[:8])
		switch {
		case !slices.ContainsFunc(p.instances, func(in *Instance) bool { return in.id == id }):
			return id, nil
		case instance != "":
			return "", fmt.Errorf("Instance %s: another output has that name: give each one of its own", printable(instance, 100))
		}
	}
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
	if !p.forgotLast(in) {
		return
	}
	if !p.leaving.Load() {
		p.noHeirs()
		return
	}
	if n := workersLeft(); n > 0 {
		newLogger(p.Log, "reload", slog.LevelInfo).Warn("Fluent Bit has left workers of this output behind, which look at freed memory from now on and may crash the process: restart it, and set Workers 0 where you reload", "threads", n)
	}
}

// forgotLast forgets in and says whether no instance is left.
func (p *Process) forgotLast(in *Instance) bool {
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
	return len(p.instances) == 0
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
