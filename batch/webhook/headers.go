// This file checks the headers that a configuration adds to requests.

package webhook

import (
	"errors"
	"net/http"
	"strings"
)

// ownHeaders are those that describe the request itself (RFC 9110, RFC 9112), each
// with what to do instead.
var ownHeaders = map[string]string{
	"Accept-Encoding":     "answers are not compressed",
	"Connection":          "connections are kept by themselves",
	"Content-Encoding":    "use Compress",
	"Content-Length":      "it is the body's",
	"Content-Type":        "it is application/json, for that is what the body is",
	"Expect":              "it is not supported",
	"Host":                "it is the URL's host; for the name in the certificate use Server_Name",
	"Idempotency-Key":     "it would be the same for all requests, which are then taken for one",
	"Keep-Alive":          "connections are kept by themselves",
	"Proxy-Authorization": "use Proxy_URL",
	"Proxy-Connection":    "connections are kept by themselves",
	"Te":                  "it is not supported",
	"Trailer":             "it is not supported",
	"Transfer-Encoding":   "it is the body's",
	"Upgrade":             "it is not supported",
	"X-Idempotency-Key":   "it would be the same for all requests, which are then taken for one",
}

// checkHeaders checks cfg.Headers; d is nil if it is not known where they go. The
// values are not shown, they may be keys.
func (cfg *Config) checkHeaders(d *destination) error {
	var f faults
	seen := map[string]bool{}
	for _, h := range cfg.Headers {
		if !isToken(h.Name) {
			f.add(fault("Headers", "%q is not the name of a header: write letters, digits and hyphens", h.Name))
			continue
		}
		name := http.CanonicalHeaderKey(h.Name)
		switch instead, own := ownHeaders[name]; {
		case own:
			f.add(fault("Headers", "%s cannot be set: %s", name, instead))
		case seen[name]:
			f.add(fault("Headers", "%s is given twice: give it once", name))
		case h.Value == "":
			f.add(fault("Headers", "%s has no value: write %s: value", name, name))
		case strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f }):
			f.add(fault("Headers", "the value of %s has a control or a non-ASCII character: remove it", name))
		case name == "Authorization" && d != nil && d.credentials() != "":
			f.add(fault("Headers", "Authorization is set, and so is %s: keep one of the two", d.credentials()))
		}
		seen[name] = true
	}
	return errors.Join(f...)
}

// credentials names what d authorises requests with, "" if it is nothing.
func (d *destination) credentials() string {
	switch {
	case d.tokenFile != "":
		return d.names.token
	case d.rest.BearerToken != "":
		return "the token in Webhook_Config_File"
	case d.rest.Username != "":
		return d.names.user
	}
	return ""
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
