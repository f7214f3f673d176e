// Package plugin is one [OUTPUT] instance of the output plugin k8saudit in
// plain Go: its keys, its life, and what to answer for a chunk. It knows
// nothing of cgo; package main passes what Fluent Bit calls.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	jsoniter "github.com/json-iterator/go"

	"out_k8saudit/batch"
	"out_k8saudit/batch/webhook"
	"out_k8saudit/plugin/deadletter"
	"out_k8saudit/plugin/ledger"
	"out_k8saudit/plugin/record"
)

// Instance is one [OUTPUT] section at work. It has its own client, backend, ledger and
// goroutines; two instances share nothing but the drain time, and one that
// follows another after a reload goes on where that one ended.
type Instance struct {
	process *Process
	id      string // see Process.outputID
	cfg     *Config
	log     *slog.Logger
	repeats *repeats

	client     client
	ledger     *ledger.Ledger
	backend    *batch.Backend
	dead       *deadletter.Dir // nil: none
	hasAdopted bool            // the backend holds events of mode batch that an instance before a reload left
	walks      sync.Pool       // of *walk
	waiting    waiting
	reading    overlap

	reported *ledger.Reported // skips

	stop    chan struct{}  // closed when the intake ends
	sending sync.WaitGroup // of what earlier processes have kept

	mu          sync.Mutex
	times       map[string]*record.Times // by tag
	panics      map[ledger.ID]int        // by chunk
	undelivered []*batch.Events          // in no chunk any more, at the end of the drain time; after it nobody appends

	counts     counts
	warnEngine sync.Once
	exiting    atomic.Bool
	exited     chan struct{} // closed when Exit is over
}

// client sends to the webhook; *webhook.Client but in tests.
type client interface {
	batch.Sender
	Destination() string
	Close()
}

// counts is what the instance met in its life.
type counts struct {
	chunks, retries                atomic.Uint64
	suppressed                     atomic.Uint64
	invalidUTF8, restored, leftOut atomic.Uint64
	truncated                      atomic.Uint64
	skipped                        [record.NumReasons]atomic.Uint64
}

// newInstance makes an instance of its keys. On error nothing is left behind.
func newInstance(p *Process, number int, get func(key string) string) (*Instance, error) {
	var made atomic.Pointer[Instance]
	cfg, c, err := configure(p.Version, get, func(err error) {
		if in := made.Load(); in != nil {
			in.log.Warn("a file that was replaced cannot be used", "error", err)
		}
	})
	if err != nil {
		return nil, err
	}
	name := cfg.Instance
	if name == "" {
		name = fmt.Sprintf("%d:%s", number, c.Host())
	}
	before := runtime.NumGoroutine()
	in, err := assemble(p, name, cfg, c)
	if err != nil {
		c.Close()
		return nil, err
	}
	made.Store(in)
	in.log.Debug("the process before this output", "goroutines", before)
	in.log.Info("started, version " + p.Version + ", posts to " + c.Target() + ": " + settings(get))
	return in, nil
}

// configure reads the keys and makes the client of them. The error joins the
// faults of both. See webhook.Config for warn.
func configure(version string, get func(key string) string, warn func(error)) (*Config, *webhook.Client, error) {
	cfg, err := ParseConfig(get)
	cfg.Webhook.UserAgent = "out_k8saudit/" + version
	cfg.Webhook.Warn = warn
	c, more := webhook.New(cfg.Webhook)
	if err := errors.Join(err, more); err != nil {
		if c != nil {
			c.Close()
		}
		return nil, nil, err
	}
	return cfg, c, nil
}

// Check finds what is wrong with the keys of one [OUTPUT] section, the files
// that they name included, without starting anything or connecting to anyone.
// See ParseConfig for get and the error.
func Check(get func(key string) string) error {
	_, c, err := configure("check", get, nil)
	if err == nil {
		c.Close()
	}
	return err
}

// assemble puts an instance together around its client, and starts it. name is for its
// log lines. On error the client is still the caller's.
func assemble(p *Process, name string, cfg *Config, c client) (*Instance, error) {
	in := &Instance{
		process: p,
		cfg:     cfg,
		log:     newLogger(p.Log, printable(name, 100), cfg.LogLevel),
		client:  c,
		stop:    make(chan struct{}),
		exited:  make(chan struct{}),
		times:   map[string]*record.Times{},
		panics:  map[ledger.ID]int{},

		waiting:  waiting{start: time.Now()},
		reported: &ledger.Reported{},
	}
	in.repeats = &repeats{log: in.log}
	in.walks.New = func() any { return in.newWalk() }
	if err := errors.Join(makeFolder("State_Dir", cfg.StateDir), makeFolder("Dead_Letter_Dir", cfg.DeadLetterDir)); err != nil {
		return nil, err
	}
	if err := in.openDeadLetters(); err != nil {
		return nil, err
	}
	var err error
	if in.id, err = p.outputID(cfg.Instance, c.Destination()); err != nil {
		return nil, err
	}
	undelivered, err := in.openLedger()
	if err != nil {
		return nil, err
	}
	bounds := cfg.Batch
	bounds.Observer = batch.Observer{Accepted: in.ledger.Done, Failed: in.sendFailed, Health: in.healthChanged, GivenUp: in.gaveUp, Rejected: in.rejected, Shrunk: in.shrunk, Panicked: in.observerPanicked}
	bounds.Shrink = in.shrink
	in.backend = batch.New(bounds, c)
	in.hasAdopted = len(undelivered) > 0
	for _, ev := range undelivered {
		in.backend.Adopt(ev)
	}
	// Run fails for a backend that ran or was shut down before: never this one.
	if err := in.backend.Run(in.stop); err != nil {
		panic(err)
	}
	if in.dead != nil {
		in.sendUndelivered()
	}
	return in, nil
}

// Exit ends the intake, sends what was taken, and blocks until the last request
// has returned or the drain time is over: Drain_Timeout from the first exit of
// an instance in the process, at least a second. A second call waits for the
// first.
func (in *Instance) Exit() {
	if in.exiting.Swap(true) {
		<-in.exited
		return
	}
	drain := in.process.drainTime(in.cfg.DrainTimeout)
	start := time.Now()
	before := in.backend.Stats()
	close(in.stop)
	// Nothing is lost with what is given up: a chunk, a file or the next output has it.
	isKept := in.cfg.Mode == ModeBlocking && !in.hasAdopted || in.dead != nil || in.process.leaving.Load()
	in.backend.Shutdown(drain, isKept)
	in.sending.Wait()
	in.client.Close()
	in.repeats.flush()
	in.logEnd(before.Pending, time.Since(start))
	in.handOver()
	in.process.forget(in)
	close(in.exited)
}

// logEnd writes the account of the instance's life.
func (in *Instance) logEnd(pending uint64, took time.Duration) {
	s := in.backend.Stats()
	remembered, _ := in.ledger.Count()
	level := slog.LevelInfo
	text := "stopped"
	if s.GivenUp > 0 {
		level, text = in.givenUpText()
	}
	var skipped uint64
	for i := range in.counts.skipped {
		skipped += in.counts.skipped[i].Load()
	}
	in.log.Log(context.Background(), level, text,
		"drained", pending, "drain_time", took.Round(time.Millisecond),
		"chunks", in.counts.chunks.Load(), "retries", in.counts.retries.Load(),
		"events", s.Taken, "accepted", s.Accepted, "rejected", s.Rejected, "returned", s.Returned, "given_up", s.GivenUp, "pending", s.Pending,
		"requests", s.Requests, "failed_requests", s.Failures,
		"skipped_records", skipped, "invalid_utf8", in.counts.invalidUTF8.Load(),
		"timestamps_restored", in.counts.restored.Load(), "timestamps_left_out", in.counts.leftOut.Load(), "truncated", in.counts.truncated.Load(),
		"suppressed", in.counts.suppressed.Load(), "remembered", remembered)
}

// maxTags bounds the tags whose record times are remembered.
const maxTags = 4096

// timesOf is what is known of the record times of a tag.
func (in *Instance) timesOf(tag string) *record.Times {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := in.times[tag]
	if t == nil {
		if len(in.times) >= maxTags {
			clear(in.times) // learnt again from the next chunk of each
		}
		t = &record.Times{}
		in.times[tag] = t
	}
	return t
}

// sendFailed logs a failed request. However many events are at fault, their lines are those of
// one fault that repeats.
func (in *Instance) sendFailed(f batch.Failure) {
	retry := any(f.Backoff.Round(time.Millisecond))
	if f.Parts > 0 {
		retry = fmt.Sprintf("at once, in %d parts", f.Parts)
	}
	if f.Single != nil {
		in.repeats.tell(slog.LevelError, "event", "the webhook does not accept this event; it is tried again and holds up no other",
			"event", eventID(f.Single), "bytes", len(f.Single), "tries", f.Tries, "retry_in", retry, "error", f.Err)
		return
	}
	in.repeats.tell(slog.LevelWarn, "request: "+kindOf(f.Err), "a request failed, its events are kept and sent again",
		"error", f.Err, "events", f.Events, "bytes", f.Bytes, "tries", f.Tries, "retry_in", retry)
}

// observerPanicked logs a fault of this package.
func (in *Instance) observerPanicked(v any, stack []byte) {
	in.repeats.tell(slog.LevelError, "panic", "a panic while noting what became of events; please report this", "panic", v, "stack", string(stack))
}

// healthChanged logs that the webhook is down or works again.
func (in *Instance) healthChanged(from, to batch.Health) {
	switch {
	case to == batch.Down:
		in.repeats.tell(slog.LevelWarn, "down", "the webhook is down: Fluent Bit keeps the chunks, one probe at a time goes out")
	case from == batch.Down:
		in.repeats.tell(slog.LevelInfo, "up", "the webhook works again")
	case to == batch.Slow:
		in.repeats.tell(slog.LevelWarn, "slow", "the webhook is slow: a request has been under way for longer than Flush_Timeout; sending goes on")
	}
}

// eventID names an event in a log line: its auditID and stage.
func eventID(event []byte) string {
	id := jsoniter.Get(event, "auditID").ToString()
	stage := jsoniter.Get(event, "stage").ToString()
	return printable(id, 64) + "/" + printable(stage, 32)
}
