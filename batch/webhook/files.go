// This file checks certificates and keys, from files and as data.

package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// readCA reads a file of certificates that came from key.
func readCA(key, file string) (pem []byte, pool *x509.CertPool, err error) {
	pem, err = os.ReadFile(file)
	if err != nil {
		return nil, nil, fault(key, "%w: give a readable file of PEM certificates", err)
	}
	pool, err = parseCA(key, fmt.Sprintf("%q", file), pem)
	return pem, pool, err
}

// parseCA parses certificates; what names them in the error.
func parseCA(key, what string, pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fault(key, "%s has no valid PEM certificate (%d bytes): give the certificates of the authority that signed the webhook's", what, len(pem))
	}
	return pool, nil
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

// checkKeyPair says which of a client certificate and its key is at fault.
func checkKeyPair(cert, key *pemSource) error {
	certPEM, certErr := cert.read("certificate")
	keyPEM, keyErr := key.read("private key")
	if err := errors.Join(certErr, keyErr); err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		const remedy = "give a PEM certificate and the private key that belongs to it"
		if len(cert.data) > 0 {
			return fault(cert.key, "with %s: %w: %s", key.named(), err, remedy)
		}
		return fault(cert.key, "%q with %s: %w: %s", cert.file, key.named(), err, remedy)
	}
	return nil
}
