// This file is the chunks that Fluent Bit keeps for a retry. As long as there are some,
// the ledger forgets nothing that it has room for: after an outage, the two copies of a
// line that in_tail has read twice may be far apart.

package plugin

import (
	"sync"
	"time"

	"out_k8saudit/plugin/ledger"
)

const (
	// maxWaiting bounds the memory. Fluent Bit has 2048 chunks under way at most
	// (task_map_size, flb_config.h), but those that it dropped count on for waitingKept.
	maxWaiting = 1 << 16

	// waitingKept is how long after its last RETRY a chunk still counts. Fluent Bit may
	// drop one without a word, and one may wait long for its turn.
	waitingKept = time.Hour

	// backlogTime is how long after a start chunks count as waiting that were not seen
	// yet: those of a backlog, which an earlier process may have answered RETRY.
	backlogTime = 10 * time.Minute
)

// waiting are the chunks that were answered RETRY and not OK since. It is safe for concurrent use.
type waiting struct {
	mu     sync.Mutex
	chunks map[ledger.ID]time.Time // by the last RETRY
	purge  time.Time               // when to look next for those that never came again
	start  time.Time               // of the instance
}

// answered notes an answer, and says whether chunks wait.
func (w *waiting) answered(chunk ledger.ID, answer Answer) bool {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case answer != Retry:
		delete(w.chunks, chunk)
	case len(w.chunks) < maxWaiting:
		if w.chunks == nil {
			w.chunks = map[ledger.ID]time.Time{}
		}
		w.chunks[chunk] = now
	}
	if len(w.chunks) > 0 && now.After(w.purge) {
		w.purge = now.Add(time.Minute)
		for c, at := range w.chunks {
			if now.Sub(at) > waitingKept {
				delete(w.chunks, c)
			}
		}
	}
	return len(w.chunks) > 0 || now.Sub(w.start) < backlogTime
}

// noteAnswer counts an answer, and has the ledger hold what it has while chunks wait. A
// chunk is told from others by its beginning and its size: a hash of all of it would cost
// too much for each flush, and a mistake costs memory or holds for less.
func (in *Instance) noteAnswer(chunk []byte, answer Answer) {
	if answer == Retry {
		in.counts.retries.Add(1)
	}
	id := in.ledger.Identify(chunk[:min(len(chunk), 1024)])
	id[0] ^= uint64(len(chunk))
	in.ledger.Hold(in.waiting.answered(id, answer))
}
