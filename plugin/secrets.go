// This file makes values fit to be shown: what may be a secret is left out.

package plugin

import (
	"net/url"
	"strings"
)

// hidden shows nothing of a value but that there is one.
func hidden(string) string { return "..." }

// redactURL is the URL without what may be a credential: user information, the
// query and the fragment.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		return "(not a URL)"
	}
	u.User = nil
	if u.RawQuery != "" {
		u.RawQuery = "..."
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}

// headerNames is the value of Headers without theirs.
func headerNames(value string) string {
	var shown []string
	for _, header := range splitHeaders(value) {
		name, _, found := cutHeader(header)
		if !found {
			name = "" // it may be a value
		}
		shown = append(shown, name+": ...")
	}
	return strings.Join(shown, " | ")
}
