// Fuzz targets: whatever is configured goes out unchanged, and whatever is received
// can be shown.

package webhook

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://webhook:8443/a%2Fb//c?x=1&y=%20;z", "http://[::1]:80?", "http://h//x", "HTTP://H/%7e?a|b", "http://a@b/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(ownNames, raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "URL: ") {
				t.Errorf("error without its key: %v", err)
			}
			return
		}
		if !strings.HasSuffix(raw, u.RequestURI()) && !strings.HasSuffix(raw, strings.TrimPrefix(u.RequestURI(), "/")) {
			t.Errorf("%q would go out as %q", raw, u.RequestURI())
		}
		if strings.ContainsAny(u.RequestURI(), " \r\n#") || u.User != nil || u.Hostname() == "" {
			t.Errorf("%q accepted: %#v", raw, u)
		}
		if _, err := url.ParseRequestURI(u.RequestURI()); err != nil {
			t.Error(err)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-1", "99999999999999999999", "Mon, 02 Jan 2023 10:01:30 GMT", "1.5", " 7 "} {
		f.Add(s, "Mon, 02 Jan 2023 10:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		h := http.Header{"Retry-After": {value}, "Date": {date}}
		wait, ok := parseRetryAfter(h, time.Unix(0, 0))
		if wait < 0 || !ok && wait != 0 {
			t.Errorf("%q: %v %v", value, wait, ok)
		}
	})
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("line one\r\n\x1b[31mred \xff€"), 200, "token", []byte(list))
	f.Add([]byte(list), 200, "", []byte(list))
	f.Fuzz(func(t *testing.T, text []byte, limit int, token string, body []byte) {
		limit = max(40, limit%1000)
		got := excerpt(text, limit, []string{token}, body)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("%d bytes %q", len(got), got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not printable: %q", got)
		}
	})
}
