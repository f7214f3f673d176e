// This file is what a failed try says about the batch itself: may its size be
// the reason, and may splitting it help?

package batch

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// cause sorts failures by what can be done about them. Receivers do not keep
// to the meaning of status codes (Falco answers 400 to a body that is too
// large, typed decoders 500 to one bad event), so most of them may be the
// batch's own fault.
type cause int

const (
	causeOther    cause = iota // no word about the batch: retry it as it is
	causeTooLarge              // 413: too large for certain
	causeRefused               // 400, 422: the batch, or its size
	causeServer                // 5xx, connection lost, timeout: perhaps the batch, or its size
)

func causeOf(err error) cause {
	var answer interface{ StatusCode() int }
	if errors.As(err, &answer) {
		switch status := answer.StatusCode(); {
		case status == http.StatusRequestEntityTooLarge:
			return causeTooLarge
		case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
			return causeRefused
		case status >= 500:
			return causeServer
		}
		return causeOther
	}
	// A receiver may cut the connection instead of answering 413, even while
	// the body is still being written.
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return causeServer
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return causeServer
	}
	return causeOther
}

// sizeMayExplain says whether a smaller batch may be accepted.
func (c cause) sizeMayExplain() bool { return c != causeOther }

// triesBeforeSplit is how many failures with this cause a batch must have
// before it is split although others are accepted.
func (c cause) triesBeforeSplit() int {
	if c == causeServer {
		return 3 // restarting receivers and balancers answer so for a moment
	}
	return 1
}
