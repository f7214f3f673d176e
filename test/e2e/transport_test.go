package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// This file sends the audit logs over every kind of transport: TLS, a kubeconfig,
// credentials, proxies, gzip, HTTP/2 and further headers.

// delivery is one run of a pipeline with both audit logs in one.
type delivery struct {
	*testing.T
	e     engine
	dir   string
	log   string
	lines []string
}

func (d *delivery) receive(args ...string) *receiver {
	d.Helper()
	return receive(d.T, d.dir, d.log, "", args...)
}

func (d *delivery) start(s setup) *process {
	d.Helper()
	s.dir, s.log, s.workers = d.dir, d.log, 1
	return d.e.start(d.T, s)
}

// finish waits until all events are stored, ends both sides and asserts that nothing
// is lost, duplicated or altered.
func (d *delivery) finish(r *receiver, p *process) {
	d.Helper()
	until(d.T, "all events are stored", func() bool { return r.stored() >= len(d.lines) || p.ended() })
	p.stop()
	r.wantAll(len(d.lines))
}

func (d *delivery) deliver(r *receiver, s setup) *process {
	d.Helper()
	p := d.start(s)
	d.finish(r, p)
	return p
}

// file writes a file of the delivery in one step, so that nobody reads half of it.
func (d *delivery) file(name, text string) string {
	d.Helper()
	file := filepath.Join(d.dir, name)
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		d.Fatal(err)
	}
	return file
}

func (d *delivery) wantUnsaid(p *process, secrets ...string) {
	d.Helper()
	for _, secret := range secrets {
		if strings.Contains(p.String(), secret) {
			d.Errorf("the log holds %q", secret)
		}
	}
}

// counted is a number in what the receiver printed at its end: of a line "name: 3", or
// of an answer "name=3".
func (r *receiver) counted(name string) int {
	r.t.Helper()
	m := regexp.MustCompile(`(?m)(?:^|\s)` + name + `(?:: |=)(\d+)\b`).FindStringSubmatch(r.String())
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

var transports = map[string]func(d *delivery){
	"https with a private CA and a client certificate": mutualTLS,
	"a kubeconfig with relative paths":                 kubeconfig,
	"a bearer token":                                   bearerToken,
	"401 until a new token is in the file":             newToken,
	"a password":                                       password,
	"401 until the password is the right one":          wrongPassword,
	"a proxy for http":                                 proxyForHTTP,
	"a proxy for https":                                proxyForHTTPS,
	"HTTP_PROXY":                                       proxyOfEnvironment,
	"NO_PROXY":                                         noProxyOfEnvironment,
	"gzip":                                             gzipBodies,
	"HTTP2 On":                                         http2,
	"headers":                                          headers,
	"a certificate of another authority":               untrusted,
}

func TestEveryTransportDeliversEveryEventOnce(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(transports)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e engine) {
				d := &delivery{T: t, e: e, dir: t.TempDir()}
				d.log = filepath.Join(d.dir, "audit.log")
				d.lines = append(auditLog(t, "requestresponse"), auditLog(t, "metadata")...)
				writeLines(t, d.log, d.lines)
				transports[name](d)
			})
		})
	}
}

func mutualTLS(d *delivery) {
	ca := newAuthority(d.T, d.dir, "ca")
	r := d.receive(ca.serverArgs("-client-ca", ca.file)...)
	cert, key := ca.issue("fluent-bit")
	d.deliver(r, setup{url: r.url, keys: "CA_File " + ca.file + "|Cert_File " + cert + "|Key_File " + key})
}

func kubeconfig(d *delivery) {
	ca := newAuthority(d.T, d.dir, "ca")
	r := d.receive(ca.serverArgs("-client-ca", ca.file)...)
	cert, key := ca.issue("fluent-bit")
	conf := d.file("webhook.kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: audit
  cluster: {server: %q, certificate-authority: %s}
users:
- name: fluent-bit
  user: {client-certificate: %s, client-key: %s}
contexts:
- name: audit
  context: {cluster: audit, user: fluent-bit}
current-context: audit
`, r.url, filepath.Base(ca.file), filepath.Base(cert), filepath.Base(key)))
	d.deliver(r, setup{keys: "Webhook_Config_File " + conf, cwd: d.TempDir()})
}

func bearerToken(d *delivery) {
	const token = "eyJ0b2tlbiI6MX0"
	r := d.receive("-bearer-token-file", d.file("wanted", token))
	p := d.deliver(r, setup{url: r.url, keys: "Bearer_Token_File " + d.file("token", token+"\n")})
	d.wantUnsaid(p, token)
	if n := r.counted("401"); n != 0 {
		d.Errorf("%d requests answered 401", n)
	}
}

func newToken(d *delivery) {
	const old, fresh = "eyJ0b2tlbiI6MX0", "eyJ0b2tlbiI6Mn0"
	r := d.receive("-bearer-token-file", d.file("wanted", fresh))
	p := d.start(setup{url: r.url, keys: "Bearer_Token_File " + d.file("token", old) + "|Initial_Backoff 100ms|Max_Backoff 500ms"})
	until(d.T, "the token is refused", func() bool { return strings.Contains(p.String(), "answered 401") || p.ended() })
	if n := r.stored(); n != 0 {
		d.Errorf("%d events stored with the old token", n)
	}
	d.file("token", fresh)
	d.finish(r, p)
	d.wantUnsaid(p, old, fresh)
	if n := r.counted("401"); n == 0 {
		d.Error("no request was answered 401")
	}
	if !strings.Contains(p.String(), "the token is read again from Bearer_Token_File") {
		d.Error("the log does not say which file")
	}
}

func password(d *delivery) {
	const secret = "open:sesame"
	r := d.receive("-basic-auth-file", d.file("wanted", "audit:"+secret))
	p := d.deliver(r, setup{url: r.url, keys: "HTTP_User audit|HTTP_Passwd " + secret})
	d.wantUnsaid(p, secret, base64.StdEncoding.EncodeToString([]byte("audit:"+secret)))
	if n := r.counted("401"); n != 0 {
		d.Errorf("%d requests answered 401", n)
	}
}

func wrongPassword(d *delivery) {
	const secret = "open-barley"
	wanted := d.file("wanted", "audit:open-sesame")
	r := d.receive("-basic-auth-file", wanted)
	p := d.start(setup{url: r.url, keys: "HTTP_User audit|HTTP_Passwd " + secret + "|Initial_Backoff 100ms|Max_Backoff 500ms"})
	until(d.T, "the password is refused", func() bool { return strings.Contains(p.String(), "answered 401") || p.ended() })
	if n := r.stored(); n != 0 {
		d.Errorf("%d events stored with the wrong password", n)
	}
	d.file("wanted", "audit:"+secret)
	d.finish(r, p)
	d.wantUnsaid(p, secret)
	if n := r.counted("401"); n == 0 {
		d.Error("no request was answered 401")
	}
	if !strings.Contains(p.String(), "the user name and password are not accepted") {
		d.Error("the log does not say what is refused")
	}
}

// proxied is a host that only the proxies of these tests know.
const proxied = "audit-webhook.test"

func proxyForHTTP(d *delivery) {
	const secret = "open-sesame"
	r := d.receive()
	proxy := newProxy(d.T, r.address(), "fluent-bit:"+secret)
	p := d.deliver(r, setup{url: "http://" + proxied + "/audit", keys: "Proxy_URL http://fluent-bit:" + secret + "@" + proxy.address()})
	d.wantUnsaid(p, secret, base64.StdEncoding.EncodeToString([]byte("fluent-bit:"+secret)))
	d.wantAllThrough(proxy, r)
	if n := proxy.requests.Load(); n != int64(r.counted("requests")) {
		d.Errorf("%d requests passed the proxy, want all %d", n, r.counted("requests"))
	}
}

func proxyForHTTPS(d *delivery) {
	ca := newAuthority(d.T, d.dir, "ca")
	r := d.receive(ca.serverArgs()...)
	proxy := newProxy(d.T, r.address(), "")
	d.deliver(r, setup{url: "https://" + proxied + "/audit", keys: "CA_File " + ca.file + "|Proxy_URL " + proxy.URL})
	d.wantAllThrough(proxy, r)
	if n := proxy.tunnels.Load(); n == 0 || n != proxy.requests.Load() {
		d.Errorf("%d CONNECTs of %d requests to the proxy, want nothing else", n, proxy.requests.Load())
	}
}

func proxyOfEnvironment(d *delivery) {
	r := d.receive()
	proxy := newProxy(d.T, r.address(), "")
	d.deliver(r, setup{url: "http://" + proxied + "/audit", env: []string{"HTTP_PROXY=" + proxy.URL, "NO_PROXY=other.test"}})
	d.wantAllThrough(proxy, r)
}

func noProxyOfEnvironment(d *delivery) {
	r := d.receive()
	proxy := newProxy(d.T, r.address(), "")
	// This machine under an address that does not count as loopback, which no proxy of
	// the environment is ever used for.
	host := strings.Replace(r.address(), "127.0.0.1", "0.0.0.0", 1)
	d.deliver(r, setup{url: "http://" + host + "/audit", env: []string{"HTTP_PROXY=" + proxy.URL, "NO_PROXY=other.test,0.0.0.0"}})
	if n := proxy.requests.Load(); n != 0 {
		d.Errorf("%d requests to the proxy", n)
	}
}

// wantAllThrough asserts that the receiver saw no connection but the proxy's.
func (d *delivery) wantAllThrough(p *proxy, r *receiver) {
	d.Helper()
	if dials, seen := p.dials.Load(), int64(r.counted("connections")); p.requests.Load() == 0 || dials != seen {
		d.Errorf("the proxy took %d requests and made %d connections of the %d that the receiver saw", p.requests.Load(), dials, seen)
	}
}

func gzipBodies(d *delivery) {
	r := d.receive()
	d.deliver(r, setup{url: r.url, keys: "Compress gzip"})
	if all, n := r.counted("requests"), r.counted("gzip"); n == 0 || n != all {
		d.Errorf("%d of %d bodies came compressed", n, all)
	}
	var events int
	for _, line := range d.lines {
		events += len(line)
	}
	if n := r.counted("bytes"); n == 0 || n > events/2 {
		d.Errorf("%d bytes came of %d of events", n, events)
	}
}

func http2(d *delivery) {
	ca := newAuthority(d.T, d.dir, "ca")
	r := d.receive(ca.serverArgs()...)
	d.deliver(r, setup{url: r.url, keys: "CA_File " + ca.file + "|HTTP2 On"})
	if all, n := r.counted("requests"), r.counted("http2"); n == 0 || n != all {
		d.Errorf("%d of %d requests came over HTTP/2", n, all)
	}
}

func headers(d *delivery) {
	const key = "k3y-of-the-api"
	r := d.receive()
	to, err := url.Parse(r.url)
	if err != nil {
		d.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	var with, without atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Scope-OrgID") == "audit | all" && req.Header.Get("X-Api-Key") == key {
			with.Add(1)
		} else {
			without.Add(1)
		}
		behind.ServeHTTP(w, req)
	}))
	d.Cleanup(front.Close)
	p := d.deliver(r, setup{url: front.URL + "/audit", headers: `X-Scope-OrgID: audit \| all | X-Api-Key: ` + key})
	d.wantUnsaid(p, key)
	if with.Load() == 0 || without.Load() != 0 {
		d.Errorf("%d requests had both headers, %d had not", with.Load(), without.Load())
	}
}

// untrusted has a receiver whose certificate nothing in CA_File signed, until the
// right authority is written there.
func untrusted(d *delivery) {
	ca, other := newAuthority(d.T, d.dir, "ca"), newAuthority(d.T, d.dir, "other")
	r := d.receive(ca.serverArgs()...)
	s := setup{url: r.url, grace: 1, keys: "CA_File " + other.file + "|Initial_Backoff 100ms|Max_Backoff 500ms|Flush_Timeout 500ms|Drain_Timeout 1s"}
	p := d.start(s)
	const cause = "x509: certificate signed by unknown authority"
	until(d.T, "the certificate is refused", func() bool { return strings.Contains(p.String(), cause) || p.ended() })
	p.stop()
	if (&setup{dir: d.dir}).chunksStored(d.T) == 0 {
		d.Error("no chunk is stored")
	}
	if named := regexp.MustCompile(`POST ` + regexp.QuoteMeta("https://"+r.address()) + `/audit: .*` + cause); !named.MatchString(p.String()) {
		d.Error("no line of the log names both the host and the cause")
	}
	address := r.address()
	r.stop()
	if n := r.counted("requests"); n != 0 || r.counted("connections") == 0 || r.stored() != 0 {
		d.Fatalf("%d requests, %d connections, %d events stored", n, r.counted("connections"), r.stored())
	}
	r = receive(d.T, d.dir, d.log, address, ca.serverArgs()...)
	s.keys = strings.Replace(s.keys, other.file, ca.file, 1)
	d.deliver(r, s)
}
