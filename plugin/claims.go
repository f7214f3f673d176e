// This file remembers chunks that were answered RETRY. Fluent Bit sends such a
// chunk again as a whole, byte for byte; here it finds its delivery, finished
// or running, so that nothing of it is sent twice.

package plugin

import (
	"container/list"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/minio/highwayhash"
)

// maxIdle is how many remembered deliveries without an event in flight are
// kept. Those with events in flight are bounded by the buffer.
const maxIdle = 32768

// claims are the deliveries that wait for their chunk to come back. A delivery
// may be claimed only while its last answer was RETRY and no flush holds it.
// Two chunks with the same bytes are two chunks: each claim takes one delivery.
// Safe for concurrent use.
type claims struct {
	key [32]byte // of the hash: those who write events must not be able to make two chunks alike

	mu      sync.Mutex
	byShape map[shape][]*delivery
	order   *list.List // of *delivery, oldest first
	idle    int        // bound on order
	evicted uint64

	// Chunks that were answered OK and whose answer Fluent Bit may not read,
	// because it is about to reload.
	answered []*delivery
}

// shape is what is compared before any hash.
type shape struct {
	tag  string
	size int
}

func newClaims() *claims {
	c := &claims{byShape: map[shape][]*delivery{}, order: list.New(), idle: maxIdle}
	// Cannot fail: crypto/rand.Read aborts the process instead.
	_, _ = rand.Read(c.key[:])
	return c
}

func (c *claims) hash(chunk []byte) [highwayhash.Size128]byte {
	return highwayhash.Sum128(chunk, c.key[:])
}

// any says whether a delivery of that shape waits to be claimed, and whether
// one of them is finished.
func (c *claims) any(tag string, size int) (waiting, finished bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.byShape[shape{tag, size}] {
		waiting = true
		if d.isFinished() {
			return true, true
		}
	}
	return waiting, false
}

// claim takes the delivery of that chunk, nil if none waits for it.
func (c *claims) claim(tag string, chunk []byte) *delivery {
	if waiting, _ := c.any(tag, len(chunk)); !waiting {
		return nil // nothing to compare with: no need to hash
	}
	sum := c.hash(chunk)
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *delivery
	for _, d := range slices.Clone(c.byShape[shape{tag, len(chunk)}]) {
		switch {
		case d.isExpired():
			c.removeLocked(d)
		case d.sum != sum:
		case d.isFinished():
			c.removeLocked(d)
			return d
		case best == nil:
			best = d
		}
	}
	if best != nil {
		c.removeLocked(best)
	}
	return best
}

// remember makes d claimable: its chunk is about to be answered RETRY.
func (c *claims) remember(d *delivery, tag string, chunk []byte) {
	c.identify(d, tag, chunk)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addLocked(d)
}

func (c *claims) identify(d *delivery, tag string, chunk []byte) {
	if !d.summed {
		d.sum, d.summed = c.hash(chunk), true
	}
	d.shape = shape{tag, len(chunk)}
}

func (c *claims) addLocked(d *delivery) {
	c.byShape[d.shape] = append(c.byShape[d.shape], d)
	d.place = c.order.PushBack(d)
	// Evict the oldest that have nothing in flight. One step for each delivery
	// that comes in is enough to keep the bound, and looking at a few keeps the
	// cost of an event independent of how many are remembered.
	for looked := 0; c.order.Len() > c.idle && looked < 4; looked++ {
		oldest := c.order.Front()
		if old := oldest.Value.(*delivery); old.isIdle() {
			c.removeLocked(old)
			c.evicted++
		} else {
			c.order.MoveToBack(oldest)
		}
	}
}

// noteAnswered notes that a chunk is about to be answered OK, perhaps to nobody.
func (c *claims) noteAnswered(tag string, chunk []byte) {
	d := &delivery{taken: true, some: true}
	c.identify(d, tag, chunk)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = append(c.answered, d)
}

// answersRead says that Fluent Bit has read all answers so far.
func (c *claims) answersRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = nil
}

// rememberAnswered makes the chunks whose answers were perhaps not read
// claimable, for answeredKept.
func (c *claims) rememberAnswered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.answered {
		d.expires = time.Now().Add(answeredKept)
		c.addLocked(d)
	}
	c.answered = nil
}

// all are the deliveries that wait to be claimed, oldest first.
func (c *claims) all() (all []*delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*delivery))
	}
	return all
}

func (c *claims) removeLocked(d *delivery) {
	c.order.Remove(d.place)
	d.place = nil
	same := c.byShape[d.shape]
	for i := range same {
		if same[i] == d {
			same = append(same[:i], same[i+1:]...)
			break
		}
	}
	if len(same) == 0 {
		delete(c.byShape, d.shape)
	} else {
		c.byShape[d.shape] = same
	}
}

// counts is how many deliveries wait to be claimed, and how many were forgotten.
func (c *claims) counts() (waiting int, evicted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.evicted
}
