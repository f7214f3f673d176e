// This file holds the settings of a Client and the checks they must pass.

package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config says where and how to send. New checks it; each fault is named by the
// key that sets the field in fluent-bit.conf.
type Config struct {
	// URL is the webhook's address (key URL): http or https, a host, no user
	// information, no fragment. Its path and query go out exactly as written here.
	URL string

	// CAFile (key CA_File) holds the PEM certificates that may sign the webhook's;
	// empty: the system's. Read at New, and again after a webhook's certificate
	// could not be verified.
	CAFile string
	// CertFile and KeyFile (keys Cert_File, Key_File) are the client certificate,
	// PEM, both or neither. Read again for new connections.
	CertFile, KeyFile string
	// ServerName (key Server_Name) is the name to expect in the webhook's
	// certificate; empty: the URL's host.
	ServerName string
	// InsecureSkipVerify (key Insecure_Skip_Verify) accepts any certificate.
	InsecureSkipVerify bool

	// BearerTokenFile (key Bearer_Token_File) holds the token for the
	// Authorization header. Read again within a minute, and at once after a 401.
	BearerTokenFile string

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

	// UserAgent is the User-Agent header, such as "out_k8saudit/1.2.3".
	UserAgent string
}

// fault is one wrong setting: the key, what is wrong with its value, and the remedy.
func fault(key, format string, args ...any) error {
	return fmt.Errorf(key+": "+format, args...)
}

// check returns the parsed URL, or every fault of cfg joined.
func (cfg *Config) check() (*url.URL, error) {
	var faults []error
	add := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}

	target, err := parseURL(cfg.URL)
	add(err)
	if err == nil && target.Scheme == "http" {
		// A key that would do nothing is a mistake about what is protected.
		for _, k := range []struct {
			key string
			set bool
		}{
			{"CA_File", cfg.CAFile != ""},
			{"Cert_File", cfg.CertFile != ""},
			{"Key_File", cfg.KeyFile != ""},
			{"Server_Name", cfg.ServerName != ""},
			{"Insecure_Skip_Verify", cfg.InsecureSkipVerify},
		} {
			if k.set {
				add(fault(k.key, "set, but URL begins with http://, where there is no TLS: use https:// or leave %s out", k.key))
			}
		}
	}

	if cfg.InsecureSkipVerify && cfg.CAFile != "" {
		add(fault("Insecure_Skip_Verify", "on, together with CA_File %q: no certificate would be checked against that file; keep one of the two", cfg.CAFile))
	}
	if cfg.CAFile != "" {
		_, _, err := readCA(cfg.CAFile)
		add(err)
	}
	switch {
	case cfg.CertFile != "" && cfg.KeyFile != "":
		add(checkKeyPair(cfg.CertFile, cfg.KeyFile))
	case cfg.CertFile != "":
		add(fault("Cert_File", "%q has no Key_File: a client certificate needs its private key; set both or neither", cfg.CertFile))
	case cfg.KeyFile != "":
		add(fault("Key_File", "%q has no Cert_File: a private key needs its certificate; set both or neither", cfg.KeyFile))
	}
	if cfg.BearerTokenFile != "" {
		_, err := readToken(cfg.BearerTokenFile)
		add(err)
	}

	if cfg.RequestTimeout <= 0 {
		add(fault("Request_Timeout", "%s: give a time above zero, such as 30s", cfg.RequestTimeout))
	}
	if cfg.MaxConcurrentRequests < 1 {
		add(fault("Max_Concurrent_Requests", "%d: give a number of at least 1", cfg.MaxConcurrentRequests))
	}
	if cfg.MaxBodyBytes < 1 {
		add(fault("Batch_Max_Bytes", "%d: give a size of at least 1", cfg.MaxBodyBytes))
	}

	return target, errors.Join(faults...)
}

// parseURL checks raw against what a Client can send unchanged. Its errors show
// neither the query nor anything that may be a password.
func parseURL(raw string) (*url.URL, error) {
	const want = "give it as http(s)://host[:port]/path[?query]"
	if raw == "" {
		return nil, fault("URL", "empty: %s", want)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return nil, fault("URL", "byte %d is a space, a control or a non-ASCII character: percent-encode it", i+1)
		}
	}
	if strings.Contains(raw, "#") {
		return nil, fault("URL", "has a fragment (#…), which HTTP cannot send: remove it, or write the # as %%23")
	}
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error repeats the whole URL, and its cause any part of it.
		var escape url.EscapeError
		if errors.As(err, &escape) {
			return nil, fault("URL", "has a %% that is not followed by two hexadecimal digits: write it as %%25")
		}
		return nil, fault("URL", "not a valid URL (not shown, it may hold a password): %s", want)
	}
	if u.User != nil {
		return nil, fault("URL", "holds a user name or password (not shown), and credentials in the URL are not accepted: use Bearer_Token_File or Cert_File and Key_File")
	}
	switch u.Scheme {
	case "http", "https":
	case "":
		return nil, fault("URL", "has no scheme: %s", want)
	default:
		return nil, fault("URL", "scheme %q is not supported: %s", u.Scheme, want)
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return nil, fault("URL", "has no host: %s", want)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fault("URL", "port %s: give a port from 1 to 65535", port)
		}
	}

	// url.URL re-encodes a path that is not valid as written; a receiver must see
	// what was configured, so such a path is refused rather than changed.
	_, written, _ := strings.Cut(raw, "://")
	if i := strings.IndexAny(written, "/?"); i >= 0 {
		written = written[i:]
	} else {
		written = ""
	}
	if !strings.HasPrefix(written, "/") {
		written = "/" + written
	}
	if sent := u.RequestURI(); sent != written {
		path, _, _ := strings.Cut(written, "?")
		return nil, fault("URL", "path %q has characters that must be percent-encoded: write it as %q", path, u.EscapedPath())
	}
	return u, nil
}

// readCA reads a CA_File.
func readCA(file string) (pem []byte, pool *x509.CertPool, err error) {
	pem, err = os.ReadFile(file)
	if err != nil {
		return nil, nil, fault("CA_File", "%w: give a readable file of PEM certificates", err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fault("CA_File", "%q has no valid PEM certificate (%d bytes): give the certificates of the authority that signed the webhook's", file, len(pem))
	}
	return pem, pool, nil
}

// checkKeyPair says which of the two files is at fault.
func checkKeyPair(certFile, keyFile string) error {
	certPEM, certErr := os.ReadFile(certFile)
	if certErr != nil {
		certErr = fault("Cert_File", "%w: give a readable PEM certificate", certErr)
	}
	keyPEM, keyErr := os.ReadFile(keyFile)
	if keyErr != nil {
		keyErr = fault("Key_File", "%w: give a readable PEM private key", keyErr)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return fault("Cert_File", "%q with Key_File %q: %w: give a PEM certificate and the private key that belongs to it", certFile, keyFile, err)
	}
	return nil
}
