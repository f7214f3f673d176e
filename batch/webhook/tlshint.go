// This file says what a TLS connection that failed means: which certificate it was, and
// which key to look at.

package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// maxSubject is how much of a certificate's names an error shows.
const maxSubject = 100

// tlsHint explains err, the cause of a POST without an answer; "" if it is not about
// TLS. Of certificates it shows the subject, and what of it matters.
func (c *Client) tlsHint(err error) string {
	n := c.dest.names
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return certificate(invalid.Cert) + ": the receiver needs a valid one, or a clock is wrong"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return certificate(wrong.Certificate) + ": look at " + n.serverName
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		hint := "the certificate"
		if unknown.Cert != nil {
			hint = fmt.Sprintf("%s, issued by %s", certificate(unknown.Cert), subject(unknown.Cert.Issuer.String()))
		}
		hint += ": look at " + n.ca
		switch {
		case c.tr.ca != nil:
			if _, err := c.tr.ca.state(); err != nil {
				hint += ", which cannot be used: " + err.Error()
			}
		case len(c.dest.rest.CAData) == 0:
			hint += ", which is not set: the system's authorities count"
		}
		return hint
	}
	if other, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		if string(other.RecordHeader[:]) == "HTTP/" {
			return n.url + " begins with https://, and what answers speaks HTTP without TLS"
		}
		return n.url + " begins with https://, and what answers does not speak TLS"
	}
	// What the receiver says (RFC 8446, section 6) has no type of its own.
	text := err.Error()
	remote, ok := errors.AsType[*net.OpError](err)
	switch {
	case strings.Contains(text, "protocol version"):
		return "the receiver must speak TLS 1.2 or 1.3"
	case ok && remote.Op == "remote error" && strings.Contains(text, "tls: unrecognized name"):
		return "the receiver has no certificate for that name: look at " + n.serverName
	case ok && remote.Op == "remote error" && strings.Contains(text, "certificate"):
		return c.clientCertificateHint()
	case ok && remote.Op == "remote error" && strings.Contains(text, "tls: handshake failure") && !c.dest.hasClientCertificate():
		return "the receiver may want a client certificate, and there is none: look at " + n.cert
	case strings.Contains(text, `malformed HTTP response "\x15\x03`):
		return n.url + " begins with http://, and what answers speaks TLS"
	}
	return ""
}

// clientCertificateHint explains a refused client certificate, or that none was sent.
func (c *Client) clientCertificateHint() string {
	n := c.dest.names
	if !c.dest.hasClientCertificate() {
		return fmt.Sprintf("the receiver wants a client certificate, and there is none: look at %s", n.cert)
	}
	hint := "the receiver does not accept the client certificate"
	if c.tr.pair != nil {
		pair, err := c.tr.pair.state()
		hint += " " + validity(pair.Leaf)
		if err != nil {
			return hint + ", and its replacement cannot be used: " + err.Error()
		}
	}
	return hint + ": look at " + n.cert
}

func certificate(cert *x509.Certificate) string { return "certificate " + validity(cert) }

// validity is the subject of a certificate and its time.
func validity(cert *x509.Certificate) string {
	return fmt.Sprintf("%s, valid from %s to %s", subject(cert.Subject.String()),
		cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339))
}

// subject is the name of a certificate as it may be shown: it came from the other side.
func subject(name string) string {
	return fmt.Sprintf("%q", excerpt([]byte(name), maxSubject, nil, nil))
}
