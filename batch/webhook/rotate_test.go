// Tests of certificates, authorities and tokens that are replaced while a Client lives.

package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// volume is a folder as the kubelet mounts a secret: each file is a link through
// ..data, a link to the folder that holds the files; replacing that link replaces all.
type volume struct {
	t   *testing.T
	dir string
	n   int
}

func newVolume(t *testing.T, files map[string]string) *volume {
	t.Helper()
	v := &volume{t: t, dir: t.TempDir()}
	v.replace(files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), v.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

func (v *volume) replace(files map[string]string) {
	v.t.Helper()
	old, _ := os.Readlink(v.path("..data"))
	v.n++
	fresh := fmt.Sprintf("..2026_11_30_%d", v.n)
	if err := os.Mkdir(v.path(fresh), 0o700); err != nil {
		v.t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(v.path(filepath.Join(fresh, name)), []byte(content), 0o600); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := os.Symlink(fresh, v.path("..data_tmp")); err != nil {
		v.t.Fatal(err)
	}
	if err := os.Rename(v.path("..data_tmp"), v.path("..data")); err != nil {
		v.t.Fatal(err)
	}
	if old != "" {
		if err := os.RemoveAll(v.path(old)); err != nil {
			v.t.Fatal(err)
		}
	}
}

// generation is one issue of everything that both sides need to trust each other.
type generation struct {
	name            string
	server, clients *authority
	pair            tls.Certificate
	cert, key       string
}

func newGeneration(t *testing.T, name string) *generation {
	t.Helper()
	g := &generation{name: name, server: newAuthority(t, name), clients: newAuthority(t, name+" clients")}
	g.pair = pairFor(t, g.server, "127.0.0.1")
	g.cert, g.key = g.clients.issue(t, name)
	return g
}

func (g *generation) files() map[string]string {
	return map[string]string{"ca.crt": g.server.pem, "tls.crt": g.cert, "tls.key": g.key, "token": g.name}
}

// mutual is a receiver that wants the certificate and the token of one generation.
type mutual struct {
	*httptest.Server
	current atomic.Pointer[generation]
}

func newMutual(t *testing.T, g *generation) *mutual {
	t.Helper()
	m := &mutual{}
	m.current.Store(g)
	m.Server = unstarted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") != "Bearer "+m.current.Load().name {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	m.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		g := m.current.Load()
		cfg := &tls.Config{Certificates: []tls.Certificate{g.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
		cfg.ClientCAs.AddCert(g.clients.cert)
		return cfg, nil
	}, Certificates: []tls.Certificate{g.pair}}
	m.StartTLS()
	return m
}

// ways are the two that a configuration names the files of a volume.
var ways = map[string]func(t *testing.T, v *volume, url string) Config{
	"keys": func(_ *testing.T, v *volume, url string) Config {
		cfg := config(url)
		cfg.CAFile, cfg.CertFile, cfg.KeyFile, cfg.BearerTokenFile = v.path("ca.crt"), v.path("tls.crt"), v.path("tls.key"), v.path("token")
		return cfg
	},
	"kubeconfig": func(t *testing.T, v *volume, url string) Config {
		cfg := config("")
		cfg.ConfigFile = v.path("kubeconfig")
		overwrite(t, cfg.ConfigFile, kubeconfig("server: "+url+"\ncertificate-authority: ca.crt",
			"client-certificate: tls.crt\nclient-key: tls.key\ntokenFile: token"))
		return cfg
	},
}

func TestFilesReplacedByALinkSwapAreUsed(t *testing.T) {
	for name, configure := range ways {
		t.Run(name, func(t *testing.T) {
			old, fresh := newGeneration(t, "old"), newGeneration(t, "fresh")
			s := newMutual(t, old)
			v := newVolume(t, old.files())
			cfg := configure(t, v, s.URL)
			cfg.Warn = func(err error) { t.Errorf("warned of good files: %v", err) }
			c := client(t, cfg)
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Fatal(err)
			}
			v.replace(fresh.files())
			s.current.Store(fresh)
			c.tr.closeIdle()
			// Each failure has the next POST bring something new: the authorities, after
			// which the handshake brings the new certificate, and the token.
			err := c.Send(t.Context(), []byte(list))
			if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
				t.Errorf("got %v, want an unknown authority", err)
			}
			err = c.Send(t.Context(), []byte(list))
			if answer, ok := errors.AsType[*Error](err); !ok || answer.Status != http.StatusUnauthorized {
				t.Errorf("got %v, want 401", err)
			}
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Error(err)
			}
		})
	}
}

// All files are read again within a minute, with nothing failing; the connection that
// was made on the old authorities is given up.
func TestAReplacedFileIsUsedWithinAMinute(t *testing.T) {
	old, fresh := newGeneration(t, "old"), newGeneration(t, "fresh")
	v := newVolume(t, old.files())
	pair := pairFor(t, old.server, "webhook")
	synctest.Test(t, func(t *testing.T) {
		listener := &pipeListener{conns: make(chan net.Conn)}
		var came []string
		s := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				came = append(came, r.Header.Get("Authorization")+" "+r.TLS.PeerCertificates[0].Subject.CommonName)
			}),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert},
		}
		go func() { _ = s.ServeTLS(listener, "", "") }()
		c, err := newClient(ways["keys"](t, v, "https://webhook"), func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			listener.conns <- there
			return here, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		send := func() {
			t.Helper()
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Error(err)
			}
		}
		send()
		files := fresh.files()
		files["ca.crt"] = old.server.pem + fresh.server.pem
		v.replace(files)
		for range 3 {
			time.Sleep(filePeriod/3 - 1) // no connection is idle for long enough to be closed
			send()
		}
		time.Sleep(3 * time.Nanosecond)
		send()
		want := []string{"Bearer old old", "Bearer old old", "Bearer old old", "Bearer old old", "Bearer fresh fresh"}
		if !slices.Equal(came, want) {
			t.Errorf("came %q\nwant %q", came, want)
		}
		c.Close()
		listener.Close()
		s.Close()
	})
}

// A client certificate that is no longer accepted on a connection that lives (it has
// expired since, or was revoked) is replaced by the one that the files hold now.
func TestA401HasTheNextPOSTBringTheNewCertificate(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		a := newAuthority(t, "ours")
		oldCert, oldKey := a.issue(t, "old")
		newCert, newKey := a.issue(t, "new")
		s := unstarted(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.TLS.PeerCertificates[0].Subject.CommonName == "old" {
				w.WriteHeader(status)
			}
		})
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pairFor(t, a, "127.0.0.1")}, ClientAuth: tls.RequireAnyClientCert}
		s.StartTLS()
		v := newVolume(t, map[string]string{"ca.crt": a.pem, "tls.crt": oldCert, "tls.key": oldKey})
		cfg := config(s.URL)
		cfg.CAFile, cfg.CertFile, cfg.KeyFile = v.path("ca.crt"), v.path("tls.crt"), v.path("tls.key")
		c := client(t, cfg)
		if err := c.Send(t.Context(), []byte(list)); err == nil {
			t.Fatalf("%d: Send with the old certificate: nil", status)
		}
		v.replace(map[string]string{"ca.crt": a.pem, "tls.crt": newCert, "tls.key": newKey})
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Errorf("%d: Send with the new certificate: %v", status, err)
		}
	}
}

// readAgain has a Client read all of its files.
func readAgain(c *Client) {
	c.tr.checkCA(0)
	c.tr.pair.read()
	c.token.read()
}

// A file that was replaced by one that cannot be used is told of once, the last good
// one goes on working for new connections, and so does the one after it was repaired.
func TestABrokenFileLeavesTheLastGoodOneInUse(t *testing.T) {
	old, fresh := newGeneration(t, "old"), newGeneration(t, "fresh")
	cut := func(pem string) string { return pem[:len(pem)-30] }
	const pairRemedy = ": give a PEM certificate and the private key that belongs to it"
	const caRemedy = ": give the certificates of the authority that signed the webhook's"
	for _, tt := range []struct{ name, file, content, want string }{
		{"authorities empty", "ca.crt", "", `CA_File: "$ca.crt" has no valid PEM certificate (0 bytes)` + caRemedy},
		{"authorities garbage", "ca.crt", "hunter2", `CA_File: "$ca.crt" has no valid PEM certificate (7 bytes)` + caRemedy},
		{"authorities half written", "ca.crt", cut(fresh.server.pem), `CA_File: "$ca.crt" has no valid PEM certificate (#)` + caRemedy},
		{"second of the authorities half written", "ca.crt", fresh.server.pem + cut(old.server.pem),
			`CA_File: "$ca.crt" is cut off or damaged: 1 of its 2 PEM certificates can be read`},
		{"authorities gone", "ca.crt", "-", "CA_File: open $ca.crt: no such file or directory: give a readable file of PEM certificates"},
		{"certificate empty", "tls.crt", "",
			`Cert_File: "$tls.crt" with Key_File "$tls.key": tls: failed to find any PEM data in certificate input` + pairRemedy},
		{"certificate half written", "tls.crt", cut(old.cert),
			`Cert_File: "$tls.crt" with Key_File "$tls.key": tls: failed to find any PEM data in certificate input` + pairRemedy},
		{"chain half written", "tls.crt", old.cert + cut(old.clients.pem),
			`Cert_File: "$tls.crt" with Key_File "$tls.key": 1 of its 2 PEM certificates can be read, it is cut off or damaged` + pairRemedy},
		{"another's key", "tls.key", fresh.key,
			`Cert_File: "$tls.crt" with Key_File "$tls.key": tls: private key does not match public key` + pairRemedy},
		{"key garbage", "tls.key", "hunter2",
			`Cert_File: "$tls.crt" with Key_File "$tls.key": tls: failed to find any PEM data in key input` + pairRemedy},
		{"key gone", "tls.key", "-", "Key_File: open $tls.key: no such file or directory: give a readable PEM private key"},
		{"token empty", "token", "\n", `Bearer_Token_File: "$token" is empty: write the token into it`},
		{"token garbage", "token", "hunter2 hunter3",
			`Bearer_Token_File: "$token" holds more than one token: a space, a line break or another character that a token cannot have follows after 7 bytes`},
		{"token gone", "token", "-", "Bearer_Token_File: open $token: no such file or directory: give a readable file that holds the token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for way, configure := range ways {
				s := newMutual(t, old)
				v := newVolume(t, old.files())
				cfg := configure(t, v, s.URL)
				var warned []string
				cfg.Warn = func(err error) { warned = append(warned, err.Error()) }
				c := client(t, cfg)

				broken := old.files()
				broken[tt.file] = tt.content
				if tt.content == "-" {
					delete(broken, tt.file)
				}
				for range 2 {
					v.replace(broken)
					for range 3 {
						readAgain(c)
						c.tr.closeIdle() // a connection is what a certificate is read for
						if err := c.Send(t.Context(), []byte(list)); err != nil {
							t.Errorf("%s: with the broken file: %v", way, err)
						}
					}
					v.replace(old.files())
					readAgain(c)
				}
				want := strings.NewReplacer("$", v.dir+"/", "(#)", fmt.Sprintf("(%d bytes)", len(tt.content))).Replace(tt.want) + " (what was there before stays in use)"
				if way == "kubeconfig" {
					where := fmt.Sprintf("Webhook_Config_File %q: ", cfg.ConfigFile)
					for key, field := range map[string]string{
						"CA_File": "certificate-authority", "Cert_File": "client-certificate", "Key_File": "client-key", "Bearer_Token_File": "tokenFile",
					} {
						want = strings.ReplaceAll(want, key, where+field)
					}
				}
				if !slices.Equal(warned, []string{want, want}) { // once for each time that it broke
					t.Errorf("%s: warned\n%s\nwant twice\n%s", way, strings.Join(warned, "\n"), want)
				}

				v.replace(fresh.files())
				s.current.Store(fresh)
				readAgain(c)
				c.token.refused()
				c.tr.closeIdle()
				if err := c.Send(t.Context(), []byte(list)); err != nil {
					t.Errorf("%s: with the next good files: %v", way, err)
				}
			}
		})
	}
}

// A renewed certificate at the receiver needs nothing here.
func TestDeliveryGoesOnWhenTheReceiverRenewsItsCertificate(t *testing.T) {
	a := newAuthority(t, "ours")
	var current atomic.Pointer[tls.Certificate]
	use := func(pair tls.Certificate) { current.Store(&pair) }
	expired := pairWith(t, a, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	use(expired)
	s := unstarted(t, func(w http.ResponseWriter, r *http.Request) {})
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*current.Load()}}, nil
	}}
	s.StartTLS()
	cfg := config(s.URL)
	cfg.CAFile = file(t, a.pem)
	c := client(t, cfg)
	err := c.Send(t.Context(), []byte(list))
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); !ok || invalid.Reason != x509.Expired {
		t.Errorf("got %v, want an expired certificate", err)
	}
	use(pairFor(t, a, "127.0.0.1"))
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Errorf("after the renewal: %v", err)
	}
}
