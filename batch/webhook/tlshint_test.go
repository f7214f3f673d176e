// Tests of what is said about TLS connections that fail.

package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// between is the part of the hint about dates that tests cannot know.
func between(cert *x509.Certificate) string {
	return "valid from 1999-01-01T00:00:00Z to " + cert.NotAfter.UTC().Format(time.RFC3339)
}

func leaf(t *testing.T, pair tls.Certificate) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestAFailedHandshakeNamesTheCertificateAndTheKey(t *testing.T) {
	a, other := newAuthority(t, "ours"), newAuthority(t, "theirs")
	good := pairFor(t, a, "127.0.0.1")
	past := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	future := time.Date(2124, 5, 1, 0, 0, 0, 0, time.UTC)
	expired := pairWith(t, a, func(c *x509.Certificate) { c.NotAfter = past })
	early := pairWith(t, a, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = future, future.Add(time.Hour) })
	elsewhere := pairFor(t, a, "other.example")
	theirs := pairFor(t, other, "127.0.0.1")
	certPEM, keyPEM := other.issue(t, "k8saudit")
	clientCert := leaf(t, func() tls.Certificate {
		pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}())
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)

	const failed = "tls: failed to verify certificate: x509: "
	for _, tt := range []struct {
		name   string
		server *tls.Config
		set    func(*Config)
		want   string // after the target; NOW stands for the time of the handshake
	}{
		{"expired", &tls.Config{Certificates: []tls.Certificate{expired}}, nil,
			failed + "certificate has expired or is not yet valid: current time NOW is after 2024-05-01T00:00:00Z" +
				` (certificate "CN=127.0.0.1", valid from 1999-01-01T00:00:00Z to 2024-05-01T00:00:00Z: the receiver needs a valid one, or a clock is wrong)`},
		{"not yet valid", &tls.Config{Certificates: []tls.Certificate{early}}, nil,
			failed + "certificate has expired or is not yet valid: current time NOW is before 2124-05-01T00:00:00Z" +
				` (certificate "CN=127.0.0.1", valid from 2124-05-01T00:00:00Z to 2124-05-01T01:00:00Z: the receiver needs a valid one, or a clock is wrong)`},
		{"another name", &tls.Config{Certificates: []tls.Certificate{elsewhere}}, func(c *Config) { c.ServerName = "audit.example" },
			failed + "certificate is valid for other.example, not audit.example" +
				` (certificate "CN=other.example", ` + between(leaf(t, elsewhere)) + `: look at Server_Name)`},
		{"another authority", &tls.Config{Certificates: []tls.Certificate{theirs}}, nil,
			failed + "certificate signed by unknown authority" +
				` (certificate "CN=127.0.0.1", ` + between(leaf(t, theirs)) + `, issued by "CN=theirs": look at CA_File)`},
		{"no authority of our own", &tls.Config{Certificates: []tls.Certificate{good}}, func(c *Config) { c.CAFile = "" },
			failed + "certificate signed by unknown authority" +
				` (certificate "CN=127.0.0.1", ` + between(leaf(t, good)) + `, issued by "CN=ours": look at CA_File, which is not set: the system's authorities count)`},
		{"no client certificate", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}, nil,
			"remote error: tls: certificate required (the receiver wants a client certificate, and there is none: look at Cert_File)"},
		{"no client certificate, TLS 1.2", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MaxVersion: tls.VersionTLS12}, nil,
			"remote error: tls: handshake failure (the receiver may want a client certificate, and there is none: look at Cert_File)"},
		{"another's client certificate", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients},
			func(c *Config) { c.CertFile, c.KeyFile = file(t, certPEM), file(t, keyPEM) },
			`remote error: tls: unknown certificate authority (the receiver does not accept the client certificate "CN=k8saudit", ` + between(clientCert) + ": look at Cert_File)"},
		{"an old TLS", &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, nil,
			"remote error: tls: protocol version not supported (the receiver must speak TLS 1.2 or 1.3)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := unstarted(t, func(http.ResponseWriter, *http.Request) { t.Error("a request came through") })
			s.TLS = tt.server
			s.StartTLS()
			cfg := config(s.URL + "/audit?token=secret")
			cfg.CAFile = file(t, a.pem)
			if tt.set != nil {
				tt.set(&cfg)
			}
			// Larger than what fits into a socket: the alert meets a POST being written.
			err := client(t, cfg).Send(t.Context(), halfSent)
			if err == nil {
				t.Fatal("Send: nil")
			}
			got := err.Error()
			if before, after, ok := strings.Cut(got, "current time "); ok {
				_, after, _ = strings.Cut(after, " ")
				got = before + "current time NOW " + after
			}
			if want := "POST " + s.URL + "/audit: " + tt.want; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestAFailedHandshakeNamesTheFieldOfAKubeconfig(t *testing.T) {
	theirs := pairFor(t, newAuthority(t, "theirs"), "127.0.0.1")
	s := unstarted(t, func(http.ResponseWriter, *http.Request) {})
	s.TLS = &tls.Config{Certificates: []tls.Certificate{theirs}}
	s.StartTLS()
	cfg := withKubeconfig(t, kubeconfig("server: "+s.URL+"\ncertificate-authority: "+file(t, newAuthority(t, "ours").pem), ""))
	err := client(t, cfg).Send(t.Context(), []byte(list))
	want := "POST " + s.URL + `: tls: failed to verify certificate: x509: certificate signed by unknown authority (certificate "CN=127.0.0.1", ` +
		between(leaf(t, theirs)) + fmt.Sprintf(`, issued by "CN=theirs": look at Webhook_Config_File %q: certificate-authority)`, cfg.ConfigFile)
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

func TestHTTPAndHTTPSTakenForOneAnother(t *testing.T) {
	a := newAuthority(t, "ours")
	secure := unstarted(t, func(http.ResponseWriter, *http.Request) {})
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{pairFor(t, a, "127.0.0.1")}}
	secure.StartTLS()
	plain := server(t, func(http.ResponseWriter, *http.Request) {})
	alert := handler(t, func(_ int, conn *net.TCPConn) {
		readRequest(conn)
		_, _ = io.WriteString(conn, "\x15\x03\x01\x00\x02\x02\x46") // protocol_version, fatal
	})
	ssh := handler(t, func(_ int, conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "SSH-2.0-x\r\n")
		untilClosed(conn)
	})
	for name, tt := range map[string]struct{ url, want string }{
		"http to a receiver of https": {"http://" + secure.Listener.Addr().String(),
			`answered 400 Bad Request: "Client sent an HTTP request to an HTTPS server."`},
		"http to TLS": {"http://" + alert,
			`net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x15\x03\x01\x00\x02\x02F" (EOF) (URL begins with http://, and what answers speaks TLS)`},
		"https to a receiver of http": {"https://" + plain.Listener.Addr().String(),
			"tls: first record does not look like a TLS handshake (URL begins with https://, and what answers speaks HTTP without TLS)"},
		"https to something else": {"https://" + ssh,
			"tls: first record does not look like a TLS handshake (URL begins with https://, and what answers does not speak TLS)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := client(t, config(tt.url)).Send(t.Context(), []byte(list))
			if want := "POST " + tt.url + ": " + tt.want; err == nil || err.Error() != want {
				t.Errorf("\n got %v\nwant %s", err, want)
			}
		})
	}
}

// A broken replacement is named where it matters: when what is used instead is refused.
func TestARefusedCertificateNamesTheBrokenReplacement(t *testing.T) {
	a, other := newAuthority(t, "ours"), newAuthority(t, "theirs")
	certPEM, keyPEM := other.issue(t, "k8saudit")
	s := unstarted(t, func(http.ResponseWriter, *http.Request) {})
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pairFor(t, a, "127.0.0.1")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = file(t, a.pem), file(t, certPEM), file(t, keyPEM)
	c := client(t, cfg)
	overwrite(t, cfg.KeyFile, "hunter2")
	err := c.Send(t.Context(), []byte(list))
	want := fmt.Sprintf("and its replacement cannot be used: Cert_File: %q with Key_File %q: tls: failed to find any PEM data in key input: "+
		"give a PEM certificate and the private key that belongs to it)", cfg.CertFile, cfg.KeyFile)
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("\n got %v\nwant its end %s", err, want)
	}
}
