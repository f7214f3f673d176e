// This file checks addresses: the webhook's and the proxy's.

package webhook

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// parseURL checks raw, which came from n.url, against what a Client can send
// unchanged. Its errors show neither the query nor anything that may be a password.
func parseURL(n names, raw string) (*url.URL, error) {
	const want = "give it as http(s)://host[:port]/path[?query]"
	if raw == "" {
		return nil, fault(n.url, "empty: %s", want)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return nil, fault(n.url, "byte %d is a space, a control or a non-ASCII character: percent-encode it", i+1)
		}
	}
	if strings.Contains(raw, "#") {
		return nil, fault(n.url, "has a fragment (#…), which HTTP cannot send: remove it, or write the # as %%23")
	}
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error repeats the whole URL, and its cause any part of it.
		var escape url.EscapeError
		if errors.As(err, &escape) {
			return nil, fault(n.url, "has a %% that is not followed by two hexadecimal digits: write it as %%25")
		}
		return nil, fault(n.url, "not a valid URL (not shown, it may hold a password): %s", want)
	}
	if u.User != nil {
		return nil, fault(n.url, "holds a user name or password (not shown), and credentials in the URL are not accepted: use %s", n.credentials)
	}
	switch u.Scheme {
	case "http", "https":
	case "":
		return nil, fault(n.url, "has no scheme: %s", want)
	default:
		return nil, fault(n.url, "scheme %q is not supported: %s", u.Scheme, want)
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return nil, fault(n.url, "has no host: %s", want)
	}
	if port := u.Port(); port != "" {
		if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
			return nil, fault(n.url, "port %s: give a port from 1 to 65535", port)
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
		return nil, fault(n.url, "path %q has characters that must be percent-encoded: write it as %q", path, u.EscapedPath())
	}
	return u, nil
}

// parseProxy checks the address of a proxy, which came from key. Its errors do not show
// the address: it may hold a password.
func parseProxy(key, raw string) (*url.URL, error) {
	const want = "give it as http://, https:// or socks5://[user:password@]host[:port]"
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fault(key, "not a valid URL (not shown, it may hold a password): %s", want)
	}
	switch u.Scheme {
	case "http", "https", "socks5":
	default:
		return nil, fault(key, "scheme %q is not supported: %s", u.Scheme, want)
	}
	if u.Hostname() == "" {
		return nil, fault(key, "has no host: %s", want)
	}
	if port := u.Port(); port != "" {
		if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
			return nil, fault(key, "port %s: give a port from 1 to 65535", port)
		}
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault(key, "has a path, a query or a fragment, which a proxy has not: %s", want)
	}
	return u, nil
}
