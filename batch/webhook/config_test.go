// Tests of the checks that New makes.

package webhook

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestFaultsOfURL(t *testing.T) {
	const want = "give it as http(s)://host[:port]/path[?query]"
	const hidden = "URL: not a valid URL (not shown, it may hold a password): " + want
	const user = "URL: holds a user name or password (not shown), and credentials in the URL are not accepted: use HTTP_User and HTTP_Passwd"
	const unset = "URL: not set, and neither is Webhook_Config_File: set one of the two, such as URL https://audit.example.com/events"
	for _, tt := range []struct{ url, want string }{
		{"", unset},
		{"/audit", "URL: has no scheme: " + want},
		{"webhook/audit", "URL: has no scheme: " + want},
		{"//webhook/audit", "URL: has no scheme: " + want},
		{"webhook:8080/audit", `URL: scheme "webhook" is not supported: ` + want},
		{"ftp://webhook/", `URL: scheme "ftp" is not supported: ` + want},
		{"unix:///run/audit.sock", `URL: scheme "unix" is not supported: ` + want},
		{"http:audit", "URL: has no host: " + want},
		{"http:///audit", "URL: has no host: " + want},
		{"https://:8443/audit", "URL: has no host: " + want},
		{"https://webhook:0/", "URL: port 0: give a port from 1 to 65535"},
		{"https://webhook:65536/", "URL: port 65536: give a port from 1 to 65535"},
		{"https://webhook:port/", hidden},
		{"https://u:hunter2/x@webhook/", hidden},
		{"https://u:hunter2@webhook/", user},
		{"https://u@webhook/", user},
		{"https://webhook/#", "URL: has a fragment (#…), which HTTP cannot send: remove it, or write the # as %23"},
		{"https://webhook/a#b", "URL: has a fragment (#…), which HTTP cannot send: remove it, or write the # as %23"},
		{"https://webhook/%zz", "URL: has a % that is not followed by two hexadecimal digits: write it as %25"},
		{"https://webhook/a b", "URL: byte 18 is a space, a control or a non-ASCII character: percent-encode it"},
		{"https://webhook/a\n", "URL: byte 18 is a space, a control or a non-ASCII character: percent-encode it"},
		{"https://webhook/ü", "URL: byte 17 is a space, a control or a non-ASCII character: percent-encode it"},
		{"https://webhook/a|b?c=secret", `URL: path "/a|b" has characters that must be percent-encoded: write it as "/a%7Cb"`},
	} {
		_, err := New(config(tt.url))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q\n got %v\nwant %s", tt.url, err, tt.want)
		}
	}
}

func TestFaultsOfOtherKeys(t *testing.T) {
	a := newAuthority(t, "a")
	certPEM, keyPEM := a.issue(t, "x")
	_, otherKey := a.issue(t, "y")
	ca, cert, key, other := file(t, a.pem), file(t, certPEM), file(t, keyPEM), file(t, otherKey)
	empty, garbage, missing := file(t, ""), file(t, "garbage"), t.TempDir()+"/missing"
	for _, tt := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"none", func(c *Config) { c.CAFile, c.CertFile, c.KeyFile = ca, cert, key }, ""},
		{"CA missing", func(c *Config) { c.CAFile = missing },
			"CA_File: open " + missing + ": no such file or directory: give a readable file of PEM certificates"},
		{"CA empty", func(c *Config) { c.CAFile = empty },
			`CA_File: "` + empty + `" has no valid PEM certificate (0 bytes): give the certificates of the authority that signed the webhook's`},
		{"CA garbage", func(c *Config) { c.CAFile = garbage },
			`CA_File: "` + garbage + `" has no valid PEM certificate (7 bytes): give the certificates of the authority that signed the webhook's`},
		{"CA is a key", func(c *Config) { c.CAFile = key },
			`CA_File: "` + key + `" has no valid PEM certificate (` + "241" + ` bytes): give the certificates of the authority that signed the webhook's`},
		{"cert alone", func(c *Config) { c.CertFile = cert },
			`Cert_File: "` + cert + `" has no Key_File: a client certificate needs its private key; set both or neither`},
		{"key alone", func(c *Config) { c.KeyFile = key },
			`Key_File: "` + key + `" has no Cert_File: a private key needs its certificate; set both or neither`},
		{"both missing", func(c *Config) { c.CertFile, c.KeyFile = missing, missing },
			"Cert_File: open " + missing + ": no such file or directory: give a readable PEM certificate\n" +
				"Key_File: open " + missing + ": no such file or directory: give a readable PEM private key"},
		{"cert garbage", func(c *Config) { c.CertFile, c.KeyFile = garbage, key },
			`Cert_File: "` + garbage + `" with Key_File "` + key + `": tls: failed to find any PEM data in certificate input: give a PEM certificate and the private key that belongs to it`},
		{"another's key", func(c *Config) { c.CertFile, c.KeyFile = cert, other },
			`Cert_File: "` + cert + `" with Key_File "` + other + `": tls: private key does not match public key: give a PEM certificate and the private key that belongs to it`},
		{"insecure with CA", func(c *Config) { c.InsecureSkipVerify, c.CAFile = true, ca },
			`Insecure_Skip_Verify: on, together with CA_File "` + ca + `": no certificate would be checked against that file; keep one of the two`},
		{"token missing", func(c *Config) { c.BearerTokenFile = missing },
			"Bearer_Token_File: open " + missing + ": no such file or directory: give a readable file that holds the token"},
		{"token empty", func(c *Config) { c.BearerTokenFile = file(t, " \n") }, "is empty: write the token into it"},
		{"two tokens", func(c *Config) { c.BearerTokenFile = file(t, "hunter2\nhunter3\n") },
			"holds more than one token: a space, a line break or another character that a token cannot have follows after 7 bytes"},
		{"TLS keys without TLS", func(c *Config) { c.URL, c.ServerName, c.InsecureSkipVerify = "http://webhook", "x", true },
			"Server_Name: set, but URL begins with http://, where there is no TLS: use https:// or leave Server_Name out\n" +
				"Insecure_Skip_Verify: set, but URL begins with http://, where there is no TLS: use https:// or leave Insecure_Skip_Verify out"},
		{"bounds", func(c *Config) { c.RequestTimeout, c.MaxConcurrentRequests, c.MaxBodyBytes = -time.Second, 0, -1 },
			"Request_Timeout: -1s: give a time above zero, such as 30s\n" +
				"Max_Concurrent_Requests: 0: give a number of at least 1\n" +
				"Batch_Max_Bytes: -1: give a size of at least 1"},
		{"all at once", func(c *Config) { c.URL, c.CAFile, c.RequestTimeout = "", missing, 0 },
			"URL: not set, and neither is Webhook_Config_File: set one of the two, such as URL https://audit.example.com/events\n" +
				"CA_File: open " + missing + ": no such file or directory: give a readable file of PEM certificates\n" +
				"Request_Timeout: 0s: give a time above zero, such as 30s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config("https://webhook/audit")
			tt.set(&cfg)
			_, err := New(cfg)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.want != "" && (err == nil || err.Error() != tt.want && !strings.HasSuffix(err.Error(), tt.want)):
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "hunter"):
				t.Errorf("shows the token: %v", err)
			}
		})
	}
}

func TestNewStartsNoGoroutine(t *testing.T) {
	current := goleak.IgnoreCurrent()
	a := newAuthority(t, "a")
	certPEM, keyPEM := a.issue(t, "x")
	cfg := config("https://webhook")
	cfg.CAFile, cfg.CertFile, cfg.KeyFile, cfg.BearerTokenFile = file(t, a.pem), file(t, certPEM), file(t, keyPEM), file(t, "t")
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := goleak.Find(current); err != nil {
		t.Error(err) // never closed, and yet nothing runs
	}
}
