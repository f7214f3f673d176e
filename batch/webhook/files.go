// This file reads certificates and keys, from files and as data.

package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// authorities are the certificates that may sign the webhook's.
type authorities struct {
	pem  []byte
	pool *x509.CertPool
}

// readCA reads a file of certificates that came from key.
func readCA(key, file string) (authorities, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return authorities{}, fault(key, "%w: give a readable file of PEM certificates", err)
	}
	pool, err := parseCA(key, fmt.Sprintf("%q", file), b)
	return authorities{b, pool}, err
}

// parseCA parses certificates; what names them in the error.
func parseCA(key, what string, b []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fault(key, "%s has no valid PEM certificate (%d bytes): give the certificates of the authority that signed the webhook's", what, len(b))
	}
	if begun, whole := countCertificates(b); whole < begun {
		return nil, fault(key, "%s is cut off or damaged: %d of its %d PEM certificates can be read", what, whole, begun)
	}
	return pool, nil
}

// countCertificates counts the PEM certificates in b. crypto/x509 and crypto/tls pass
// over one that is cut off without a word, and with it over an authority.
func countCertificates(b []byte) (begun, whole int) {
	begun = bytes.Count(b, []byte("-----BEGIN CERTIFICATE-----"))
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return begun, whole
		}
		if block.Type == "CERTIFICATE" {
			whole++
		}
	}
}

// pemSource is a PEM file, or its content.
type pemSource struct {
	key  string // where it was configured
	file string
	data []byte // instead of file
}

func (p *pemSource) read(what string) ([]byte, error) {
	if len(p.data) > 0 {
		return p.data, nil
	}
	b, err := os.ReadFile(p.file)
	if err != nil {
		return nil, fault(p.key, "%w: give a readable PEM %s", err, what)
	}
	return b, nil
}

// named is the key, and the file if it is one.
func (p *pemSource) named() string {
	if len(p.data) > 0 {
		return p.key
	}
	return fmt.Sprintf("%s %q", p.key, p.file)
}

// readKeyPair reads a client certificate and its key. Its error says which of the two
// is at fault.
func readKeyPair(cert, key *pemSource) (*tls.Certificate, error) {
	certPEM, certErr := cert.read("certificate")
	keyPEM, keyErr := key.read("private key")
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if begun, whole := countCertificates(certPEM); err == nil && whole < begun {
		err = fmt.Errorf("%d of its %d PEM certificates can be read, it is cut off or damaged", whole, begun)
	}
	if err != nil {
		const remedy = "give a PEM certificate and the private key that belongs to it"
		if len(cert.data) > 0 {
			return nil, fault(cert.key, "with %s: %w: %s", key.named(), err, remedy)
		}
		return nil, fault(cert.key, "%q with %s: %w: %s", cert.file, key.named(), err, remedy)
	}
	return &pair, nil
}
