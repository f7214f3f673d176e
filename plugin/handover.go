// This file is what an instance leaves to the next one of the same destination
// when Fluent Bit reloads its configuration: the deliveries whose chunks come
// back, and the events that it could not deliver in time.

package plugin

import (
	"time"

	"out_k8saudit/batch"
)

// handoverKept is how long what an instance left waits for the next one, which
// Fluent Bit starts at once.
const handoverKept = time.Minute

// answeredKept is how long a chunk that was answered OK, perhaps to nobody, is
// taken for the same chunk when it comes.
const answeredKept = time.Hour

// handover is what one instance leaves. The next one with the same destination
// and mode takes it, as a whole and once: two outputs with one destination leave
// two, which are taken in the order they were left.
type handover struct {
	destination string
	mode        Mode
	claims      *claims
	undelivered map[*batch.Delivery][]*batch.Events // by the delivery that the chunk claims; nil: no chunk has them any more
	keep        func([]*batch.Events)               // what nobody took
	expiry      *time.Timer
}

// lost is for the events that are in no chunk any more and that no instance took.
func (h *handover) lost() { h.keep(h.undelivered[nil]) }

// leave keeps h for the next instance, for handoverKept.
func (p *Process) leave(h *handover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, h)
	h.expiry = time.AfterFunc(handoverKept, func() {
		if p.take(func(other *handover) bool { return other == h }) != nil {
			h.lost()
		}
	})
}

// inherit takes what an instance with that destination and mode has left, nil
// if there is nothing.
func (p *Process) inherit(destination string, mode Mode) *handover {
	return p.take(func(h *handover) bool { return h.destination == destination && h.mode == mode })
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

// noHeirs tells of what was left, once it is certain that no instance follows.
func (p *Process) noHeirs() {
	for h := p.take(isAny); h != nil; h = p.take(isAny) {
		h.lost()
	}
}

func isAny(*handover) bool { return true }

// collect keeps what the backend gave up.
func (in *Instance) collect(ev *batch.Events, owner *batch.Delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.undelivered == nil {
		in.undelivered = map[*batch.Delivery][]*batch.Events{}
	}
	in.undelivered[owner] = append(in.undelivered[owner], ev)
}

// handOver leaves what the next instance needs to go on, or tells what is lost
// when there will be none. The backend has been shut down.
func (in *Instance) handOver() {
	in.claims.rememberAnswered()
	h := &handover{
		destination: in.client.Destination(),
		mode:        in.cfg.Mode,
		claims:      in.claims,
		undelivered: in.undelivered,
		keep:        in.keepUndelivered,
	}
	if !in.process.leaving.Load() {
		if in.cfg.StateDir != "" {
			in.saveState()
		}
		h.lost()
		return
	}
	if waiting, _ := h.claims.counts(); waiting > 0 || len(h.undelivered) > 0 {
		in.process.leave(h)
	}
}

// goOn takes up what the instance before this one left. The backend does not run
// yet.
func (in *Instance) goOn(h *handover) {
	in.claims = h.claims
	in.claims.evicted = 0
	for _, d := range h.claims.all() {
		if d.events == nil {
			continue
		}
		before := d.events
		d.events = in.backend.NewDelivery()
		for _, ev := range h.undelivered[before] {
			in.backend.Adopt(ev, d.events)
		}
		if d.taken {
			d.events.End()
		}
	}
	for _, ev := range h.undelivered[nil] {
		in.backend.Adopt(ev, nil)
	}
}
