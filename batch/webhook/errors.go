// This file gives a POST that got no answer its error.

package webhook

import (
	"context"
	"fmt"
	"time"
)

// transportError is a POST without an answer. Its cause stays reachable for errors.Is
// and errors.As (syscall.ECONNREFUSED, io.EOF, net.Error, …), and so does what happened
// to its connection; its text is bounded and shows no query, for the causes may quote
// what the other side sent.
type transportError struct {
	text   string
	causes []error
}

func (e *transportError) Error() string   { return e.text }
func (e *transportError) Unwrap() []error { return e.causes }

// timeoutError is a POST that took RequestTimeout. It is a net.Error, and a
// context.DeadlineExceeded for errors.Is.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("not answered within %s (Request_Timeout)", e.after)
}
func (e *timeoutError) Timeout() bool        { return true }
func (e *timeoutError) Temporary() bool      { return true }
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// closedError is a POST on a Client that is closed.
type closedError struct{}

func (closedError) Error() string { return "the client is closed" }

// earlyError is a POST that was answered 2xx before all of it was sent: the receiver cannot
// have what it has not read.
type earlyError struct{ status int }

func (e *earlyError) Error() string {
	return fmt.Sprintf("answered %d before the whole body was sent, so nothing counts as accepted", e.status)
}
