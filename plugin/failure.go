// This file sorts the failures of requests, so that another cause than the one
// before is told at once, and the same one once a minute.

package plugin

import (
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// kindOf is one of a few words for the cause of a failed request.
func kindOf(err error) string {
	var answer interface{ StatusCode() int }
	if errors.As(err, &answer) {
		return strconv.Itoa(answer.StatusCode())
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "name"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timeout"
	}
	return "other"
}
