// Tests of https.

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// certificate writes a certificate that signs itself, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestHTTP2RequestsAreCounted(t *testing.T) {
	certFile, keyFile := certificate(t)
	s := start(t, "-tls-cert", certFile, "-tls-key", keyFile)
	for _, http2 := range []bool{true, false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
		resp, err := (&http.Client{Transport: tr}).Post("https"+strings.TrimPrefix(s.url, "http"), "application/json", strings.NewReader(list(line("a", "Panic"))))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		tr.CloseIdleConnections()
	}
	if out, _ := s.end(); !strings.Contains(out, "requests: 3\nanswers: 200=3\n") || !strings.Contains(out, "http2: 2\nconnections: 3\n") {
		t.Errorf("stdout:\n%s", out)
	}
}
