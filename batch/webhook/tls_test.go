// Tests of certificates: the webhook's and the client's.

package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	a.cert, a.key, a.pem = sign(t, template, nil)
	return a
}

// issue returns certificate and key as PEM.
func (a *authority) issue(t *testing.T, name string) (certPEM, keyPEM string) {
	t.Helper()
	return a.issueWith(t, name, func(*x509.Certificate) {})
}

// issueWith is issue of a certificate that change has had its hands on.
func (a *authority) issueWith(t *testing.T, name string, change func(*x509.Certificate)) (certPEM, keyPEM string) {
	t.Helper()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	change(template)
	_, key, certPEM := sign(t, template, a)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certPEM, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// pairWith is the pair of such a certificate for 127.0.0.1.
func pairWith(t *testing.T, a *authority, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	certPEM, keyPEM := a.issueWith(t, "127.0.0.1", change)
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func sign(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = &authority{cert: template, key: key}
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	// From before the year 2000, where synctest's clock begins.
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// tlsServer has a certificate for name by a, and asks for client certificates by
// clients, if given. It tells who came.
func tlsServer(t *testing.T, a *authority, name string, clients *authority) (url string, came chan string) {
	t.Helper()
	came = make(chan string, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		who := r.TLS.ServerName + " " + r.Proto
		for _, cert := range r.TLS.PeerCertificates {
			who += " " + cert.Subject.CommonName
		}
		came <- who
	}))
	certPEM, keyPEM := a.issue(t, name)
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != nil {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		s.TLS.ClientCAs = x509.NewCertPool()
		s.TLS.ClientCAs.AddCert(clients.cert)
	}
	s.EnableHTTP2 = true // offered, and not to be taken
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, came
}

func TestOwnAuthority(t *testing.T) {
	a := newAuthority(t, "ours")
	url, came := tlsServer(t, a, "127.0.0.1", nil)
	cfg := config(url)
	cfg.CAFile = file(t, a.pem)
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != " HTTP/1.1" {
		t.Errorf("came %q, want HTTP/1.1", got)
	}
}

func TestWrongAuthorityNamesTheHost(t *testing.T) {
	url, _ := tlsServer(t, newAuthority(t, "theirs"), "127.0.0.1", nil)
	for _, ca := range []string{"", file(t, newAuthority(t, "ours").pem)} {
		cfg := config(url + "/audit?token=secret")
		cfg.CAFile = ca
		err := client(t, cfg).Send(t.Context(), []byte(list))
		want := "POST " + url + "/audit: tls: failed to verify certificate: x509: certificate signed by unknown authority ("
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v\nwant it to begin with %s", err, want)
		}
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
			t.Errorf("%T is no x509.UnknownAuthorityError", err)
		}
	}
}

func TestCAFileIsReadAgainAfterAFailure(t *testing.T) {
	a := newAuthority(t, "new")
	url, came := tlsServer(t, a, "127.0.0.1", nil)
	cfg := config(url)
	cfg.CAFile = file(t, newAuthority(t, "old").pem)
	c := client(t, cfg)
	for _, content := range []string{"garbage", "", a.pem} {
		if err := c.Send(t.Context(), []byte(list)); err == nil {
			t.Fatal("Send with the old authority: nil")
		}
		if err := os.WriteFile(cfg.CAFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Send(t.Context(), []byte(list)); err == nil {
		t.Fatal("this Send is the one that fails and reads the file")
	}
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	<-came
}

func TestServerName(t *testing.T) {
	a := newAuthority(t, "ours")
	url, came := tlsServer(t, a, "audit.example", nil)
	cfg := config(url)
	cfg.CAFile = file(t, a.pem)
	err := client(t, cfg).Send(t.Context(), []byte(list))
	if _, ok := errors.AsType[x509.HostnameError](err); !ok {
		t.Errorf("without Server_Name: %v, want an x509.HostnameError", err)
	}
	cfg.ServerName = "audit.example"
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != "audit.example HTTP/1.1" {
		t.Errorf("came %q", got)
	}
}

func TestInsecureSkipVerify(t *testing.T) {
	url, came := tlsServer(t, newAuthority(t, "theirs"), "elsewhere.example", nil)
	cfg := config(url)
	cfg.InsecureSkipVerify = true
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	<-came
}

func TestClientCertificate(t *testing.T) {
	a, clients := newAuthority(t, "ours"), newAuthority(t, "clients")
	url, came := tlsServer(t, a, "127.0.0.1", clients)
	cfg := config(url)
	cfg.CAFile = file(t, a.pem)
	err := client(t, cfg).Send(t.Context(), []byte(list))
	if err == nil || !strings.Contains(err.Error(), "tls: certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	certPEM, keyPEM := clients.issue(t, "k8saudit")
	cfg.CertFile, cfg.KeyFile = file(t, certPEM), file(t, keyPEM)
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != " HTTP/1.1 k8saudit" {
		t.Errorf("came %q", got)
	}
}

// Two clients with the same settings: closing one must not touch the other.
func TestClientsShareNoConnection(t *testing.T) {
	a := newAuthority(t, "ours")
	conns := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	certPEM, keyPEM := a.issue(t, "127.0.0.1")
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns++ // by the one goroutine that accepts
		}
	}
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile = file(t, a.pem)
	one, other := client(t, cfg), client(t, cfg)
	for _, c := range []*Client{one, other} {
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Fatal(err)
		}
	}
	one.Close()
	if err := other.Send(t.Context(), []byte(list)); err != nil {
		t.Error(err)
	}
	s.Close()
	if conns != 2 {
		t.Errorf("%d connections, want 2", conns)
	}
}
