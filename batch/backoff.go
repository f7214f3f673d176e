// This file is how long to wait after a failure.

package batch

import (
	"errors"
	"math/rand/v2"
	"time"
)

// jitterShare is the part of a wait that is left to chance, taken off so that
// the bound in Config holds. kube-apiserver's webhook jitters by 0.2 as well
// (k8s.io/apiserver/pkg/util/webhook).
const jitterShare = 0.2

// backoff is the wait before the next try after the given number of failures
// in a row: exponential, with jitter, never below what the receiver asked for
// as long as that is within limit.
func backoff(initial, limit time.Duration, failures int, err error) time.Duration {
	wait := limit
	// A shift that would overflow is far beyond any limit.
	if shift := failures - 1; shift < 32 {
		if d := initial << shift; d > 0 && d < limit {
			wait = d
		}
	}
	wait -= time.Duration(rand.Float64() * jitterShare * float64(wait))
	return min(max(wait, retryAfter(err)), limit)
}

// retryAfter is the wait that the receiver asked for, 0 if none or nonsense.
func retryAfter(err error) time.Duration {
	var asked interface{ RetryAfter() (time.Duration, bool) }
	if errors.As(err, &asked) {
		if d, ok := asked.RetryAfter(); ok && d > 0 {
			return d
		}
	}
	return 0
}
