// This file tells the observer, and those who wait for the health, what has happened.

package batch

import "runtime/debug"

// Health is the webhook's health, and a channel that is closed when it changes.
func (b *Backend) Health() (Health, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health, b.healthChanged
}

// updateHealthLocked tells those who wait, and the observer, when the health is another one.
func (b *Backend) updateHealthLocked() {
	from, to := b.health, b.gate.state()
	if from == to {
		return
	}
	b.health = to
	close(b.healthChanged)
	b.healthChanged = make(chan struct{})
	if tell := b.cfg.Observer.Health; tell != nil {
		b.noteLocked(func() { tell(from, to) })
	}
}

// noteLocked has a call of the observer made once the lock is free, after all that were
// noted before.
func (b *Backend) noteLocked(call func()) { b.notes = append(b.notes, call) }

// unlock lets the lock go and sees to it that the calls that were noted are made: by a
// goroutine of their own, since they may wait for the disk and an intake must not.
func (b *Backend) unlock() {
	if len(b.notes) > 0 && !b.notifying {
		b.notifying = true
		go b.notify()
	}
	b.endIfDoneLocked()
	b.mu.Unlock()
}

// notify makes the calls that were noted, one at a time and in order, until there are no
// more. Shutdown does not return before that.
func (b *Backend) notify() {
	b.mu.Lock()
	for len(b.notes) > 0 {
		calls := b.notes
		b.notes = nil
		b.mu.Unlock()
		for _, call := range calls {
			b.guard(func() bool { call(); return true }, false)
		}
		b.mu.Lock()
	}
	b.notifying = false
	b.endIfDoneLocked()
	b.mu.Unlock()
}

// observeAccepted tells the observer of accepted events, on the sender's goroutine.
func (b *Backend) observeAccepted(ids []ID) {
	if tell := b.cfg.Observer.Accepted; tell != nil {
		b.guard(func() bool { tell(ids); return true }, false)
	}
}

// guard calls the observer. A panic in there costs a report, and the result is what is
// given for that.
func (b *Backend) guard(call func() bool, panicked bool) (result bool) {
	defer func() {
		if v := recover(); v != nil {
			result = panicked
			if report := b.cfg.Observer.Panicked; report != nil {
				report(v, debug.Stack())
			}
		}
	}()
	return call()
}
