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
	// maxWaiting bounds the chunks that are counted. Fluent Bit has 2048 on their way at
	// most (task_map_size, flb_config.h).
	maxWaiting = 1 << 16

	// waitingKept is how long after its last RETRY a chunk still counts. Fluent Bit may
	// drop one without a word, and one may wait long for its turn.
	waitingKept = time.Hour
)

// waiting are the chunks that were answered RETRY and not OK since. The zero value is
// ready. It is safe for concurrent use.
type waiting struct {
	mu     sync.Mutex
	chunks map[ledger.ID]time.Time // by the last RETRY
	purge  time.Time               // when to look next for those that never came again
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
	return len(w.chunks) > 0
}

// noteAnswer has the ledger hold what it has while chunks wait. A chunk is told from
// others by its beginning and its size, which is good enough for that.
func (in *Instance) noteAnswer(chunk []byte, answer Answer) {
	id := in.ledger.Identify(chunk[:min(len(chunk), 1024)])
	id[0] ^= uint64(len(chunk))
	in.ledger.Hold(in.waiting.answered(id, answer))
}
