// This file is what a failed try may say about the batch itself.

package batch

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// cause sorts failures by what may be behind them. Receivers do not keep to the meaning of
// status codes (Falco answers 400 to a body that is too large, typed decoders 500 to one
// bad event, firewalls 403 to what looks like an attack), so most failures may be the
// batch's own fault.
type cause int

const (
	// causeWebhook says nothing about the batch: no connection, a wrong path or token, a
	// receiver that asks for patience.
	causeWebhook cause = iota
	// causeFailure may be the batch, or its size: 5xx, a lost connection, no answer. The
	// receiver may have stored it all the same.
	causeFailure
	// causeRefusal may be the batch, or its size, and nothing was stored: 4xx.
	causeRefusal
	// causeTooLarge is 413: the size, for certain.
	causeTooLarge
)

func causeOf(err error) cause {
	var answer interface{ StatusCode() int }
	if errors.As(err, &answer) {
		switch status := answer.StatusCode(); status {
		case http.StatusRequestEntityTooLarge:
			return causeTooLarge
		case http.StatusUnauthorized, http.StatusNotFound, http.StatusProxyAuthRequired,
			http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return causeWebhook
		default:
			if status >= 400 && status < 500 {
				return causeRefusal
			}
			return causeFailure
		}
	}
	// A receiver may cut the connection instead of answering 413, even while
	// the body is still being written.
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return causeFailure
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return causeFailure
	}
	return causeWebhook
}

// mayBeTheBatch says whether another batch, or a part of this one, may be accepted.
func (c cause) mayBeTheBatch() bool { return c != causeWebhook }

// storedNothing says whether the receiver cannot have stored what it did not accept.
func (c cause) storedNothing() bool { return c == causeRefusal || c == causeTooLarge }
