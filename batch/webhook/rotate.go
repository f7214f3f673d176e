// This file keeps what was last made of files that are replaced while a Client lives.

package webhook

import (
	"fmt"
	"sync"
	"time"
)

// filePeriod is how long what a file holds is used before it is read again, where
// nothing else makes it be read sooner. It is client-go's value for tokens: the kubelet
// replaces a projected token at 80 % of its life of ten minutes or more, so a minute is
// well within what is left.
const filePeriod = time.Minute

// rotated is what was made of one file, or of two that belong together. A replacement
// that cannot be used (half written, empty, another's key) leaves the last good one in
// use. It is told of once; so is the next one that is wrong in another way, or again
// after a good one.
type rotated[T any] struct {
	load func() (T, error)
	warn func(error) // nil: nobody is told

	mu   sync.Mutex
	good T
	err  error // of the last reading
}

// newRotated reads for the first time, when there is no good one to fall back on.
func newRotated[T any](load func() (T, error), warn func(error)) (*rotated[T], error) {
	good, err := load()
	if err != nil {
		return nil, err
	}
	return &rotated[T]{load: load, warn: warn, good: good}, nil
}

// read reads the files and returns what is to be used. A file that is reached through a
// symbolic link is looked up again each time, so a replaced link (how the kubelet
// replaces secrets and projected tokens) counts like a replaced file.
func (r *rotated[T]) read() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, err := r.load()
	if err == nil {
		r.good, r.err = fresh, nil
		return r.good
	}
	news := r.err == nil || r.err.Error() != err.Error()
	r.err = err
	if news && r.warn != nil {
		r.warn(fmt.Errorf("%w (what was there before stays in use)", err))
	}
	return r.good
}

// state returns what is in use, and why the files could not be read the last time, if
// they could not.
func (r *rotated[T]) state() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.good, r.err
}
