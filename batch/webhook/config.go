// This file holds the settings of a Client and the checks they must pass.

package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Config says where and how to send. New checks it; each fault is named by the
// key that sets the field in fluent-bit.conf.
type Config struct {
	// URL is the webhook's address (key URL): http or https, a host, no user
	// information, no fragment. Its path and query go out exactly as written here.
	URL string
	// ConfigFile (key Webhook_Config_File) is a kubeconfig, as kube-apiserver's
	// --audit-webhook-config-file takes it, instead of URL and of everything below that
	// it can say itself: the certificates, the credentials and the proxy. The server,
	// user and proxy of its current context are used; the environment changes nothing
	// (but for the proxy, if it names none). Relative paths start at its own folder.
	// The file itself is read at New only, the files that it names are read again like
	// those of the keys below. Exec and auth-provider users are refused. As for every Kubernetes client,
	// credentials go to an https server only.
	ConfigFile string

	// CAFile (key CA_File) holds the PEM certificates that may sign the webhook's;
	// empty: the system's. A replaced file is used within a minute, and at once after a
	// webhook's certificate could not be verified: that POST fails, the next one has the
	// new certificates. Connections made on the old ones are then given up once idle.
	CAFile string
	// CertFile and KeyFile (keys Cert_File, Key_File) are the client certificate,
	// PEM, both or neither. Replaced files are used for the next new connection; a 401
	// or 403 makes the next POST have one.
	CertFile, KeyFile string
	// ServerName (key Server_Name) is the name to expect in the webhook's
	// certificate; empty: the URL's host.
	ServerName string
	// InsecureSkipVerify (key Insecure_Skip_Verify) accepts any certificate.
	InsecureSkipVerify bool

	// BearerTokenFile (key Bearer_Token_File) holds the token for the
	// Authorization header. A replaced file is used within a minute, and for the next
	// POST after a 401.
	BearerTokenFile string
	// Username and Password (keys HTTP_User, HTTP_Passwd) go out as basic
	// authentication (RFC 7617), both or neither, and not with a token.
	Username, Password string
	// Headers (key Headers) are added to each request. Those that describe the request
	// itself are refused, and Authorization where there are other credentials.
	Headers []Header

	// ProxyURL (key Proxy_URL) is the proxy for all requests: http, https or socks5.
	// Empty: HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the environment, read once in the
	// life of the process.
	ProxyURL string
	// HTTP2 (key HTTP2) offers HTTP/2 to the webhook, over TLS. All requests then share
	// a connection, which is closed when it has been silent for 10 s and does not answer
	// a ping within 5 s.
	HTTP2 bool
	// Gzip (key Compress) compresses the bodies (Content-Encoding: gzip).
	Gzip bool

	// RequestTimeout (key Request_Timeout) bounds one POST from the dial to the
	// end of its answer. Above zero.
	RequestTimeout time.Duration
	// MaxConcurrentRequests (key Max_Concurrent_Requests) is how many idle
	// connections are kept; it limits nothing else. At least 1.
	MaxConcurrentRequests int
	// MaxBodyBytes (key Batch_Max_Bytes) is the usual largest body. Each connection
	// has a write buffer of that size, so that one write hands a body to the kernel.
	// A larger body is sent all the same, in pieces. At least 1.
	MaxBodyBytes int

	// Warn is told of a file above that was replaced by one that cannot be used: the key,
	// the path and what is wrong, never what the file holds. The last good one stays in
	// use meanwhile. It is called once for each such fault, from Send's goroutine or a
	// connection's, and must neither block nor call the Client. Nil: nobody is told,
	// but for the errors of the POSTs that fail for it.
	Warn func(error)

	// UserAgent is the User-Agent header, such as "out_k8saudit/1.2.3".
	UserAgent string
}

// Header is one header of a request.
type Header struct{ Name, Value string }

// destination is where a checked Config sends, and what it needs to be let in.
type destination struct {
	names  names
	target *url.URL
	// rest has the certificates and all credentials but for the token of tokenFile.
	rest      *rest.Config
	tokenFile string
	proxy     func(*http.Request) (*url.URL, error)
	proxyUser *url.Userinfo
}

// names is where settings were written, for errors.
type names struct {
	url, ca, cert, key, token, serverName string

	user        string // of basic authentication
	credentials string // the remedy for credentials in a wrong place
	redirect    string // the remedy for a redirect
	none        string // what a 401 means when there are no credentials
}

var ownNames = names{
	url: "URL", ca: "CA_File", cert: "Cert_File", key: "Key_File", token: "Bearer_Token_File", serverName: "Server_Name",
	user:        "HTTP_User",
	credentials: "HTTP_User and HTTP_Passwd",
	redirect:    "set URL to where it leads",
	none:        "neither Bearer_Token_File nor HTTP_User is set",
}

// fault is one wrong setting: the key, what is wrong with its value, and the remedy.
func fault(key, format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{key}, args...)...)
}

// faults gathers what is wrong.
type faults []error

func (f *faults) add(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// check returns the destination, or every fault of cfg joined.
func (cfg *Config) check() (*destination, error) {
	var f faults
	var d *destination
	switch {
	case cfg.URL != "" && cfg.ConfigFile != "":
		f.add(fault("Webhook_Config_File", "%q, together with URL: either says where to send; keep one of the two", cfg.ConfigFile))
	case cfg.ConfigFile != "":
		d = cfg.fromKubeconfig(&f)
	default:
		d = cfg.fromKeys(&f)
	}
	f.add(cfg.checkHeaders(d))
	if cfg.HTTP2 && d != nil && d.target != nil && d.target.Scheme == "http" {
		f.add(fault("HTTP2", "On, but %s begins with http://, and HTTP/2 is used over TLS only: use https:// or set HTTP2 Off", d.names.url))
	}

	if cfg.RequestTimeout <= 0 {
		f.add(fault("Request_Timeout", "%s: give a time above zero, such as 30s", cfg.RequestTimeout))
	}
	if cfg.MaxConcurrentRequests < 1 {
		f.add(fault("Max_Concurrent_Requests", "%d: give a number of at least 1", cfg.MaxConcurrentRequests))
	}
	if cfg.MaxBodyBytes < 1 {
		f.add(fault("Batch_Max_Bytes", "%d: give a size of at least 1", cfg.MaxBodyBytes))
	}
	return d, errors.Join(f...)
}

// fromKeys makes the destination of single keys. It is complete if nothing was added
// to f.
func (cfg *Config) fromKeys(f *faults) *destination {
	d := &destination{
		names: ownNames,
		rest: &rest.Config{
			TLSClientConfig: rest.TLSClientConfig{
				Insecure:   cfg.InsecureSkipVerify,
				ServerName: cfg.ServerName,
				CAFile:     cfg.CAFile,
				CertFile:   cfg.CertFile,
				KeyFile:    cfg.KeyFile,
			},
			Username: cfg.Username,
			Password: cfg.Password,
		},
		tokenFile: cfg.BearerTokenFile,
		proxy:     http.ProxyFromEnvironment,
	}
	var err error
	if cfg.URL == "" {
		f.add(fault("URL", "not set, and neither is Webhook_Config_File: set one of the two, such as URL https://audit.example.com/events"))
	} else {
		d.target, err = parseURL(d.names, cfg.URL)
		f.add(err)
	}
	if d.target != nil && d.target.Scheme == "http" {
		// A key that would do nothing is a mistake about what is protected.
		for _, k := range cfg.tlsKeys() {
			if k.set {
				f.add(fault(k.key, "set, but URL begins with http://, where there is no TLS: use https:// or leave %s out", k.key))
			}
		}
	}

	if cfg.InsecureSkipVerify && cfg.CAFile != "" {
		f.add(fault("Insecure_Skip_Verify", "on, together with CA_File %q: no certificate would be checked against that file; keep one of the two", cfg.CAFile))
	}
	switch {
	case cfg.CertFile != "" && cfg.KeyFile == "":
		f.add(fault("Cert_File", "%q has no Key_File: a client certificate needs its private key; set both or neither", cfg.CertFile))
	case cfg.CertFile == "" && cfg.KeyFile != "":
		f.add(fault("Key_File", "%q has no Cert_File: a private key needs its certificate; set both or neither", cfg.KeyFile))
	}
	switch {
	case cfg.Username != "" && cfg.Password == "":
		f.add(fault("HTTP_User", "%q has no HTTP_Passwd: set both or neither", cfg.Username))
	case cfg.Username == "" && cfg.Password != "":
		f.add(fault("HTTP_Passwd", "set, without HTTP_User: set both or neither"))
	case cfg.Username != "" && cfg.BearerTokenFile != "":
		f.add(fault("HTTP_User", "%q, together with Bearer_Token_File %q: a request has one Authorization header; keep one of the two", cfg.Username, cfg.BearerTokenFile))
	}
	if strings.Contains(cfg.Username, ":") {
		f.add(fault("HTTP_User", "%q has a colon, which ends the name in basic authentication: use a name without one", cfg.Username))
	}
	if cfg.ProxyURL != "" {
		proxy, err := parseProxy("Proxy_URL", cfg.ProxyURL)
		f.add(err)
		d.useProxy(proxy)
	}
	d.checkFiles(f)
	return d
}

// useProxy sends everything through proxy.
func (d *destination) useProxy(proxy *url.URL) {
	d.proxy = http.ProxyURL(proxy)
	if proxy != nil && proxy.User != nil {
		d.proxyUser = proxy.User
	}
}

// keySet says whether a key is set.
type keySet struct {
	key string
	set bool
}

func (cfg *Config) tlsKeys() []keySet {
	return []keySet{
		{"CA_File", cfg.CAFile != ""},
		{"Cert_File", cfg.CertFile != ""},
		{"Key_File", cfg.KeyFile != ""},
		{"Server_Name", cfg.ServerName != ""},
		{"Insecure_Skip_Verify", cfg.InsecureSkipVerify},
	}
}

// checkFiles reads what d refers to. A certificate without its key, or the other way
// round, was found before.
func (d *destination) checkFiles(f *faults) {
	tls := &d.rest.TLSClientConfig
	switch {
	case len(tls.CAData) > 0:
		_, err := parseCA(d.names.ca+"-data", "it", tls.CAData)
		f.add(err)
	case tls.CAFile != "":
		_, err := readCA(d.names.ca, tls.CAFile)
		f.add(err)
	}
	cert, key := d.clientCertificate()
	if (cert.file != "" || len(cert.data) > 0) && (key.file != "" || len(key.data) > 0) {
		_, err := readKeyPair(cert, key)
		f.add(err)
	}
	if d.tokenFile != "" {
		_, err := readToken(d.names.token, d.tokenFile)
		f.add(err)
	}
}

// clientCertificate is where the client certificate and its key are, if there are any.
func (d *destination) clientCertificate() (cert, key *pemSource) {
	tls := &d.rest.TLSClientConfig
	return &pemSource{key: d.names.cert, file: tls.CertFile, data: tls.CertData},
		&pemSource{key: d.names.key, file: tls.KeyFile, data: tls.KeyData}
}

// hasClientCertificate reports whether a receiver that asks for one gets one.
func (d *destination) hasClientCertificate() bool {
	return d.rest.CertFile != "" || len(d.rest.CertData) > 0
}

// secrets are the credentials in d that do not change, in every form that a receiver or
// a proxy may repeat.
func (d *destination) secrets() []string {
	var all []string
	if d.rest.BearerToken != "" {
		all = append(all, d.rest.BearerToken)
	}
	if d.rest.Password != "" {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(d.rest.Username+":"+d.rest.Password)), d.rest.Password)
	}
	if password, ok := d.proxyUser.Password(); ok {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(d.proxyUser.Username()+":"+password)), password)
	}
	return all
}

// refusedHint says what a 401 may mean, where the token does not come from a file.
func (d *destination) refusedHint() string {
	switch {
	case d.rest.BearerToken != "":
		return "the token of the user in Webhook_Config_File is not accepted"
	case d.rest.Username != "":
		return "the user name and password are not accepted"
	case d.hasClientCertificate():
		return "the client certificate alone is not accepted"
	}
	return d.names.none
}
