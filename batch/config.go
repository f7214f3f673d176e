// This file is what a Backend is made of: its settings, its sender, what it
// tells its owner, and the errors of its intake.

package batch

import (
	"context"
	"errors"
	"time"
)

// Sender sends one request body, a complete EventList. It returns nil only
// when the receiver has accepted all of it. It is called from several
// goroutines, must end soon after ctx is done, and must not read body after it
// has returned.
//
// An error may have a method StatusCode() int, the HTTP status of the answer,
// and RetryAfter() (time.Duration, bool), the wait that the receiver asked for.
// A timeout is told by net.Error.
type Sender interface {
	Send(ctx context.Context, body []byte) error
}

// Config are the bounds of a Backend. All of them must be positive, but for
// the throttle's when it is not enabled. The names in brackets are
// kube-apiserver's flags of the same meaning.
type Config struct {
	MaxSize  int           // events in a batch (--audit-webhook-batch-max-size)
	MaxBytes int           // bytes of a request body; one event over it goes alone
	MaxWait  time.Duration // how long asynchronous events wait for company (--audit-webhook-batch-max-wait)

	BufferSize  int // events taken and not settled (--audit-webhook-batch-buffer-size)
	BufferBytes int // their bytes; one event over it is taken when nothing else is there

	ThrottleEnable bool    // --audit-webhook-batch-throttle-enable
	ThrottleQPS    float64 // requests a second (--audit-webhook-batch-throttle-qps)
	ThrottleBurst  int     // requests at once (--audit-webhook-batch-throttle-burst)

	MaxConcurrentRequests int // requests under way at once

	InitialBackoff time.Duration // wait after a first failure, doubled each time (--audit-webhook-initial-backoff)
	MaxBackoff     time.Duration // longest wait between two tries of one batch

	SlowAfter time.Duration // age of a request from which the webhook counts as slow

	// Shrink makes a single event smaller that was refused for its size (413) and
	// would have to be set aside; nil if it cannot. It must not change event. Nil: no event is changed.
	Shrink func(event []byte) []byte

	// Observer is told what happens; its zero value hears nothing.
	Observer Observer
}

// Observer is told what happens in a Backend. The functions are called without
// any lock, from the backend's goroutines, and must not block but where they say so.
// All but Accepted are called one at a time, in the order of what happened, and none
// after Shutdown has returned.
type Observer struct {
	// Failed is told of each failed try after which the batch goes on.
	Failed func(Failure)
	// Accepted is told of the events of a request that was accepted, before they settle:
	// no Delivery is done, and Shutdown does not return, before Accepted has. It may block
	// on the disk, and must not keep ids.
	Accepted func(ids []ID)
	// Rejected is told of a single event that is refused for good, as it was taken,
	// before it is set aside. It may block on the disk. False keeps the event: it
	// goes on being tried.
	Rejected func(id ID, event []byte, err error) bool
	// Shrunk is told of an event, as it was taken, that goes on smaller.
	Shrunk func(event []byte, err error)
	// Health is told when the webhook's health changed.
	Health func(from, to Health)
	// GivenUp gets the events that were still unsettled when the drain time was
	// over, in runs that are the observer's from then on, before Shutdown returns.
	// owner is the Delivery that they belong to, nil for asynchronous events.
	//
	// With an owner it may be called earlier: suspects hold half of the buffer at most, and
	// the events beyond that leave it unsettled, to be brought again by who has them.
	GivenUp func(ev *Events, owner *Delivery)
	// Panicked is told of a panic in one of the other functions.
	Panicked func(v any, stack []byte)
}

// Failure is one failed try to send a batch.
type Failure struct {
	Err     error
	Events  int           // in the batch
	Bytes   int           // of its body
	Tries   int           // of this batch, this one included
	Backoff time.Duration // until the next try, as far as it depends on the batch
	Single  []byte        // the JSON of the event if the batch is a single one, and others were accepted since it, or what it was part of, first failed
	Parts   int           // that the batch goes on in at once; 0: it goes on as it is
}

var (
	// ErrStopped says that the intake has ended: nothing was taken.
	ErrStopped = errors.New("the intake has ended")
	// ErrFull says that the buffer had no room in time: nothing was taken.
	ErrFull = errors.New("the buffer is full")
	// ErrDown says that the webhook is down, so nothing is taken beyond what
	// probing needs: nothing was taken.
	ErrDown = errors.New("the webhook is down")
	// ErrSlow says that the buffer is full and the webhook is slow: nothing was
	// taken, and waiting for room would be long.
	ErrSlow = errors.New("the buffer is full and the webhook is slow")

	// errNoRoom is why an event is set aside before its fault is certain.
	errNoRoom = errors.New("refused again and again, and half of the buffer is full of such events")
)
