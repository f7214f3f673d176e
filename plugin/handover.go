// This file is what an instance leaves to the next one when Fluent Bit reloads its
// configuration: the ledger, the skips that were reported and, without Dead_Letter_Dir, the
// events of mode batch that it could not deliver in time and that no chunk has any more.

package plugin

import (
	"log/slog"
	"time"

	"out_k8saudit/batch"
	"out_k8saudit/plugin/ledger"
)

// handoverKept is how long what an instance left waits for the next one, which
// Fluent Bit starts at once.
const handoverKept = time.Minute

// handover is what one instance leaves to the one that has the same ID.
type handover struct {
	id          string
	ledger      *ledger.Ledger
	reported    *ledger.Reported
	undelivered []*batch.Events
	keep        func([]*batch.Events) // what nobody goes on with
	expiry      *time.Timer
}

// end is for what nobody goes on with.
func (h *handover) end() {
	h.keep(h.undelivered)
	h.ledger.Close()
}

// leave keeps h for the next instance, for handoverKept.
func (p *Process) leave(h *handover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, h)
	h.expiry = time.AfterFunc(handoverKept, func() {
		if p.take(func(other *handover) bool { return other == h }) != nil {
			h.end()
		}
	})
}

// inherit takes what an instance with that ID has left, nil if there is nothing.
func (p *Process) inherit(id string) *handover {
	return p.take(func(h *handover) bool { return h.id == id })
}

// take takes the first handover that is the wanted one, nil if none is.
func (p *Process) take(wanted func(*handover) bool) *handover {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range p.left {
		if wanted(h) {
			p.left = append(p.left[:i:i], p.left[i+1:]...)
			h.expiry.Stop()
			return h
		}
	}
	return nil
}

// noHeirs ends what was left, once it is certain that no instance follows.
func (p *Process) noHeirs() {
	isAny := func(*handover) bool { return true }
	for h := p.take(isAny); h != nil; h = p.take(isAny) {
		h.end()
	}
}

// handOver leaves what the next instance needs to go on, or ends it when there will be
// none. The backend has been shut down.
func (in *Instance) handOver() {
	if in.dead != nil {
		in.keepUndelivered(in.undelivered) // where it is safe, and the next instance finds it
		in.undelivered = nil
	}
	h := &handover{id: in.id, ledger: in.ledger, reported: in.reported, undelivered: in.undelivered, keep: in.keepUndelivered}
	if in.process.leaving.Load() {
		in.process.leave(h)
	} else {
		h.end()
	}
}

// openLedger takes up the ledger of the instance before this one, with the events that
// it left, or opens it.
func (in *Instance) openLedger() (undelivered []*batch.Events, err error) {
	o := ledger.Options{
		Dir: in.cfg.StateDir, Name: in.id, Window: in.cfg.DuplicateWindow,
		Warn: func(text string, attrs ...any) { in.repeats.tell(slog.LevelWarn, text, text, attrs...) },
	}
	h := in.process.inherit(in.id)
	if h == nil {
		in.ledger, err = ledger.Open(o)
		return nil, err
	}
	if err := h.ledger.Configure(o); err != nil {
		h.end()
		return nil, err
	}
	in.ledger, in.reported = h.ledger, h.reported
	return h.undelivered, nil
}
