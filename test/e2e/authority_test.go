package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// This file is a certificate authority for the tests.

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	name string
	file string // its own certificate, PEM
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir, name: name, file: filepath.Join(dir, name+".crt")}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	a.sign(a.cert, a.key, a.file)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(cert *x509.Certificate, key *ecdsa.PrivateKey, file string) {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(file, "CERTIFICATE", der)
}

func (a *authority) write(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue makes a certificate, of a server if there are hosts and else of a client.
func (a *authority) issue(name string, hosts ...string) (certFile, keyFile string) {
	a.t.Helper()
	return a.issueUntil(a.cert.NotAfter, name, hosts...)
}

// issueUntil is issue of a certificate that is valid until end.
func (a *authority) issueUntil(end time.Time, name string, hosts ...string) (certFile, keyFile string) {
	a.t.Helper()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: a.cert.NotBefore, NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(hosts) > 0 {
		cert.ExtKeyUsage[0] = x509.ExtKeyUsageServerAuth
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	key := newKey(a.t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, a.name+"-"+name+".crt"), filepath.Join(a.dir, a.name+"-"+name+".key")
	a.sign(cert, key, certFile)
	a.write(keyFile, "PRIVATE KEY", der)
	return certFile, keyFile
}

// serverArgs are the arguments of a receiver with a certificate of a.
func (a *authority) serverArgs(more ...string) []string {
	a.t.Helper()
	cert, key := a.issue("receiver", "127.0.0.1", proxied)
	return append([]string{"-tls-cert", cert, "-tls-key", key}, more...)
}
