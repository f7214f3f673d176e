package plugin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestFailuresAreSortedByTheirCause(t *testing.T) {
	for want, err := range map[string]error{
		"503":                      status(503),
		"name":                     &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "webhook"}},
		"certificate":              &tls.CertificateVerificationError{Err: errors.New("x509: expired")},
		"connection refused":       &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"connection reset by peer": &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
		"timeout":                  context.DeadlineExceeded,
		"other":                    errors.New("something else"),
	} {
		if got := kindOf(fmt.Errorf("POST http://webhook: %w", err)); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func TestAnotherCauseOfFailureIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, n int, _ []string) error {
			if n == 1 {
				return syscall.ECONNREFUSED
			}
			return status(503)
		}}
		in, log := started(t, r)
		flush(in, chunk(event(0)))
		time.Sleep(30 * time.Second)
		for _, cause := range []string{"connection refused", "answered 503"} {
			if n := log.count(`a request failed, its events are kept and sent again error="` + cause + `"`); n != 1 {
				t.Errorf("%d lines tell of %s, want 1:\n%s", n, cause, log)
			}
		}
		in.Exit()
	})
}

func TestAWebhookThatRefusesEverythingIsNotBlamedOnAnEvent(t *testing.T) {
	for _, answer := range []status{400, 413, 500} {
		t.Run(answer.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: func(context.Context, int, []string) error { return answer }}
				in, log := started(t, r)
				flush(in, chunk(eventRange(0, 20)...))
				time.Sleep(time.Hour)
				if n := log.count("does not accept this event"); n != 0 {
					t.Errorf("%d lines blame an event:\n%s", n, log)
				}
				in.Exit()
			})
		})
	}
}
