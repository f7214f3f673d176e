// This file is the log: lines in Fluent Bit's own form on stderr, and faults
// that repeat told once per interval with their count.

package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// lineHandler writes slog records as Fluent Bit writes its own lines
// (flb_log.c): [2026/01/02 15:04:05.000] [ info] [output:k8saudit:NAME] text.
// Each line is one write, so lines of several instances do not mix.
type lineHandler struct {
	out    io.Writer
	origin string // output:k8saudit:NAME
	level  slog.Level
	attrs  string
}

func newLogger(out io.Writer, instance string, level slog.Level) *slog.Logger {
	return slog.New(&lineHandler{out: out, origin: "output:k8saudit:" + instance, level: level})
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	level := "error"
	switch {
	case r.Level < slog.LevelInfo:
		level = "debug"
	case r.Level < slog.LevelWarn:
		level = " info"
	case r.Level < slog.LevelError:
		level = " warn"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] [%s] [%s] %s%s", r.Time.Format("2006/01/02 15:04:05.000"), level, h.origin, r.Message, h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, a)
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, a)
	}
	with := *h
	with.attrs += b.String()
	return &with
}

func (h *lineHandler) WithGroup(string) slog.Handler { return h }

// maxAttr is how much of a value a log line shows: an error with an excerpt of
// an answer, or a stack.
const maxAttr = 4096

func writeAttr(b *strings.Builder, a slog.Attr) {
	fmt.Fprintf(b, " %s=%s", a.Key, printable(a.Value.Resolve().String(), maxAttr))
}

// repeatInterval is how often a fault that goes on is told of.
const repeatInterval = time.Minute

// maxRepeats bounds the faults remembered; beyond it the oldest is forgotten.
const maxRepeats = 1024

// repeats tells of a fault at once and then, as long as it goes on, once per
// interval with the number of times. It has no timer: the count of a fault that
// has ended comes with flush.
type repeats struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*repeated
	order []string
}

type repeated struct {
	level slog.Level
	text  string
	attrs []any     // of the last time
	last  time.Time // of the last line
	since int       // times since the last line
}

// tell logs the fault of that kind, unless it did so less than an interval ago.
func (r *repeats) tell(level slog.Level, kind, text string, attrs ...any) {
	now := time.Now()
	r.mu.Lock()
	f := r.kinds[kind]
	if f == nil {
		f = &repeated{}
		if r.kinds == nil {
			r.kinds = map[string]*repeated{}
		}
		if len(r.order) == maxRepeats {
			delete(r.kinds, r.order[0])
			r.order = r.order[1:]
		}
		r.kinds[kind] = f
		r.order = append(r.order, kind)
	}
	f.level, f.text, f.attrs = level, text, attrs
	if !f.last.IsZero() && now.Sub(f.last) < repeatInterval {
		f.since++
		r.mu.Unlock()
		return
	}
	more := f.since
	f.last, f.since = now, 0
	r.mu.Unlock()
	if more > 0 {
		attrs = append(attrs[:len(attrs):len(attrs)], "times_since", more+1)
	}
	r.log.Log(context.Background(), level, text, attrs...)
}

// flush logs the counts that were not told yet.
func (r *repeats) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range r.order {
		if f := r.kinds[kind]; f.since > 0 {
			r.log.Log(context.Background(), f.level, f.text, append(f.attrs[:len(f.attrs):len(f.attrs)], "times_since", f.since)...)
			f.since = 0
		}
	}
}
