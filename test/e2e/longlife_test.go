package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// This file replaces certificates and tokens under a load, on either side.

// volume is a folder as the kubelet mounts a secret: each file is a link through
// ..data, and replacing that link replaces all files at once.
type volume struct {
	d   *delivery
	dir string
	n   int
}

func newVolume(d *delivery, files map[string]string) *volume {
	d.Helper()
	v := &volume{d: d, dir: d.TempDir()}
	v.replace(files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), v.path(name)); err != nil {
			d.Fatal(err)
		}
	}
	return v
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

// replace gives the files new content, that of other files.
func (v *volume) replace(files map[string]string) {
	v.d.Helper()
	v.n++
	fresh := "..2026_" + strings.Repeat("i", v.n)
	if err := os.Mkdir(v.path(fresh), 0o700); err != nil {
		v.d.Fatal(err)
	}
	for name, from := range files {
		b, err := os.ReadFile(from)
		if err != nil {
			v.d.Fatal(err)
		}
		if err := os.WriteFile(v.path(filepath.Join(fresh, name)), b, 0o600); err != nil {
			v.d.Fatal(err)
		}
	}
	if err := os.Symlink(fresh, v.path("..data_tmp")); err != nil {
		v.d.Fatal(err)
	}
	if err := os.Rename(v.path("..data_tmp"), v.path("..data")); err != nil {
		v.d.Fatal(err)
	}
}

// demands is what a front asks of TLS connections.
type demands struct {
	pair    tls.Certificate
	clients *x509.CertPool // nil: no client certificates
}

// secure is a front over TLS that makes each request have a connection of its own, so
// that what it demands counts from the next request on.
func secure(d *delivery, r *receiver) (f *front, demand func(certFile, keyFile string, clients *authority)) {
	d.Helper()
	var now atomic.Pointer[demands]
	f = newFront(d.T, r, func(f *front, _ int64, w http.ResponseWriter, req *http.Request) { f.behind.ServeHTTP(w, req) })
	f.Config.SetKeepAlivesEnabled(false)
	f.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		want := now.Load()
		c := &tls.Config{Certificates: []tls.Certificate{want.pair}}
		if want.clients != nil {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, want.clients
		}
		return c, nil
	}}
	return f, func(certFile, keyFile string, clients *authority) {
		d.Helper()
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			d.Fatal(err)
		}
		want := &demands{pair: pair}
		if clients != nil {
			pem, err := os.ReadFile(clients.file)
			if err != nil {
				d.Fatal(err)
			}
			want.clients = x509.NewCertPool()
			want.clients.AppendCertsFromPEM(pem)
		}
		now.Store(want)
	}
}

// underLoad delivers the log piece by piece. After the first of it change takes effect,
// which the log must tell of with what says; then remedy.
func (d *delivery) underLoad(r *receiver, s setup, change func(), says string, remedy func()) {
	d.Helper()
	const pieces = 20
	s.dir, s.log, s.workers = d.dir, d.log, 1
	s.keys += "|Initial_Backoff 100ms|Max_Backoff 500ms"
	write := load(d.T, d.e, d.log, d.lines, &s, (len(d.lines)+pieces-1)/pieces, 100*time.Millisecond)
	p := d.e.start(d.T, s)
	var writer sync.WaitGroup
	writer.Go(write)
	until(d.T, "some events are stored", func() bool { return r.stored() > 0 || p.ended() })
	change()
	until(d.T, "the log says: "+says, func() bool { return strings.Contains(p.String(), says) || p.ended() })
	if n := r.stored(); n >= len(d.lines) {
		d.Errorf("all %d events were stored before", n)
	}
	remedy()
	writer.Wait()
	d.finish(r, p)
}

var changes = map[string]func(d *delivery){
	"the receiver's certificate expires and is renewed":    serverCertificateExpires,
	"the client certificate is replaced in a volume":       clientCertificateIsReplaced,
	"the certificate authority is replaced in a volume":    authorityIsReplaced,
	"the token is replaced in a volume":                    tokenIsReplaced,
	"a broken client certificate is in the volume a while": clientCertificateIsBroken,
}

func TestNoEventIsLostWhen(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				d := &delivery{T: t, e: e, dir: t.TempDir(), lines: auditLog(t, "metadata")}
				d.log = filepath.Join(d.dir, "audit.log")
				changes[name](d)
			})
		})
	}
}

func serverCertificateExpires(d *delivery) {
	ca := newAuthority(d.T, d.dir, "ca")
	r := d.receive()
	f, demand := secure(d, r)
	cert, key := ca.issue("good", "127.0.0.1")
	old, oldKey := ca.issueUntil(time.Now().Add(-time.Minute), "expired", "127.0.0.1")
	demand(cert, key, nil)
	f.StartTLS()
	d.underLoad(r, setup{url: f.URL + "/audit", keys: "CA_File " + ca.file},
		func() { demand(old, oldKey, nil) }, `certificate has expired or is not yet valid`, func() { demand(cert, key, nil) })
}

func clientCertificateIsReplaced(d *delivery) {
	ca, before, after := newAuthority(d.T, d.dir, "ca"), newAuthority(d.T, d.dir, "before"), newAuthority(d.T, d.dir, "after")
	r := d.receive()
	f, demand := secure(d, r)
	cert, key := ca.issue("receiver", "127.0.0.1")
	demand(cert, key, before)
	f.StartTLS()
	oldCert, oldKey := before.issue("fluent-bit")
	newCert, newKey := after.issue("fluent-bit")
	v := newVolume(d, map[string]string{"tls.crt": oldCert, "tls.key": oldKey})
	d.underLoad(r, setup{url: f.URL + "/audit", keys: "CA_File " + ca.file + "|Cert_File " + v.path("tls.crt") + "|Key_File " + v.path("tls.key")},
		func() { demand(cert, key, after) }, "the receiver does not accept the client certificate",
		func() { v.replace(map[string]string{"tls.crt": newCert, "tls.key": newKey}) })
}

// clientCertificateIsBroken replaces the key by another's; it costs nothing until the
// receiver wants the next certificate, and the log then says which file it is.
func clientCertificateIsBroken(d *delivery) {
	ca, before, after := newAuthority(d.T, d.dir, "ca"), newAuthority(d.T, d.dir, "before"), newAuthority(d.T, d.dir, "after")
	r := d.receive()
	f, demand := secure(d, r)
	cert, key := ca.issue("receiver", "127.0.0.1")
	demand(cert, key, before)
	f.StartTLS()
	oldCert, oldKey := before.issue("fluent-bit")
	newCert, newKey := after.issue("fluent-bit")
	v := newVolume(d, map[string]string{"tls.crt": oldCert, "tls.key": oldKey})
	d.underLoad(r, setup{url: f.URL + "/audit", keys: "CA_File " + ca.file + "|Cert_File " + v.path("tls.crt") + "|Key_File " + v.path("tls.key")},
		func() {
			v.replace(map[string]string{"tls.crt": newCert, "tls.key": oldKey})
			requests, stored := f.requests.Load(), r.stored()
			until(d.T, "delivery goes on with the broken file", func() bool { return f.requests.Load() > requests+2 && r.stored() > stored })
			demand(cert, key, after)
		}, "tls: private key does not match public key",
		func() { v.replace(map[string]string{"tls.crt": newCert, "tls.key": newKey}) })
}

func authorityIsReplaced(d *delivery) {
	before, after := newAuthority(d.T, d.dir, "before"), newAuthority(d.T, d.dir, "after")
	r := d.receive()
	f, demand := secure(d, r)
	cert, key := before.issue("receiver", "127.0.0.1")
	demand(cert, key, nil)
	f.StartTLS()
	v := newVolume(d, map[string]string{"ca.crt": before.file})
	d.underLoad(r, setup{url: f.URL + "/audit", keys: "CA_File " + v.path("ca.crt")},
		func() {
			newCert, newKey := after.issue("receiver", "127.0.0.1")
			demand(newCert, newKey, nil)
		}, "look at CA_File", func() { v.replace(map[string]string{"ca.crt": after.file}) })
}

func tokenIsReplaced(d *delivery) {
	const old, fresh = "eyJ0b2tlbiI6MX0", "eyJ0b2tlbiI6Mn0"
	oldFile, newFile := d.file("old", old), d.file("fresh", fresh)
	r := d.receive("-bearer-token-file", d.file("wanted", old))
	v := newVolume(d, map[string]string{"token": oldFile})
	d.underLoad(r, setup{url: r.url, keys: "Bearer_Token_File " + v.path("token")},
		func() { d.file("wanted", fresh) }, "the token is read again from Bearer_Token_File",
		func() { v.replace(map[string]string{"token": newFile}) })
}
