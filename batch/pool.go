// This file keeps the large slices of finished batches for the next ones: a
// fresh megabyte for each batch would cost as much as decoding into it.

package batch

import "sync"

// spareRoom is what a pooled slice has beyond a full body, so that the event
// that turns out to be one too many rarely makes it grow.
const spareRoom = 64 << 10

type pool struct {
	mu       sync.Mutex
	free     []*Events
	keep     int // slices kept at most
	capacity int
	closed   bool
}

func newPool(maxBytes, keep int) pool {
	return pool{keep: keep, capacity: maxBytes + spareRoom}
}

func (p *pool) get() *Events {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		ev := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return ev
	}
	p.mu.Unlock()
	return newEvents(p.capacity)
}

// put keeps ev for the next get, unless it is of another size: a slice that a
// huge event has made grow would keep its memory for ever.
func (p *pool) put(ev *Events) {
	if cap(ev.buf) < p.capacity || cap(ev.buf) > 2*p.capacity {
		return
	}
	ev.truncate(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && len(p.free) < p.keep {
		p.free = append(p.free, ev)
	}
}

func (p *pool) drop() {
	p.mu.Lock()
	p.free, p.closed = nil, true
	p.mu.Unlock()
}
