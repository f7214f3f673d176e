// Tests of basic authentication and of configured headers.

package webhook

import (
	"encoding/base64"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestBasicAuthentication(t *testing.T) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:p:ss wörd"))
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("Authorization %q, want %q", got, want)
		}
	})
	cfg := config(s.URL)
	cfg.Username, cfg.Password = "me", "p:ss wörd"
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedCredentialsAreNotShown(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, password, _ := r.BasicAuth()
		_, _ = io.WriteString(w, "got "+r.Header.Get("Authorization")+" "+password+" "+r.Header.Get("X-Api-Key")+" "+r.Header.Get("X-Tenant"))
	})
	for _, tt := range []struct {
		set  func(*Config)
		want string
	}{
		{func(c *Config) { c.Username, c.Password = "me", "hunter2" },
			`(the user name and password are not accepted): "got Basic [secret] [secret]"`},
		{func(c *Config) { c.Headers = []Header{{"authorization", "ApiKey hunter2"}} },
			`(the Authorization in Headers is not accepted): "got [secret]"`},
		{func(c *Config) { c.Headers = []Header{{"X-Api-Key", "hunter2hunter2"}, {"X-Tenant", "audit"}} },
			`(neither Bearer_Token_File nor HTTP_User is set): "got   [secret] audit"`},
	} {
		cfg := config(s.URL)
		tt.set(&cfg)
		err := client(t, cfg).Send(t.Context(), []byte(list))
		if want := "POST " + s.URL + ": answered 401 Unauthorized " + tt.want; err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
}

func TestHeadersGoOut(t *testing.T) {
	var got http.Header
	s := server(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header })
	cfg := config(s.URL)
	cfg.Headers = []Header{{"x-scope-orgid", "audit; a=b, c"}, {"User-Agent", "mine"}, {"Authorization", "ApiKey x"}}
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"X-Scope-Orgid": "audit; a=b, c", "User-Agent": "mine", "Authorization": "ApiKey x", "Content-Type": "application/json",
	} {
		if len(got[name]) != 1 || got[name][0] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func TestFaultsOfCredentialsAndHeaders(t *testing.T) {
	token := file(t, "t")
	for _, tt := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"user alone", func(c *Config) { c.Username = "me" }, `HTTP_User: "me" has no HTTP_Passwd: set both or neither`},
		{"password alone", func(c *Config) { c.Password = "hunter2" }, `HTTP_Passwd: set, without HTTP_User: set both or neither`},
		{"user with a colon", func(c *Config) { c.Username, c.Password = "me:you", "hunter2" },
			`HTTP_User: "me:you" has a colon, which ends the name in basic authentication: use a name without one`},
		{"user and token", func(c *Config) { c.Username, c.Password, c.BearerTokenFile = "me", "hunter2", token },
			`HTTP_User: "me", together with Bearer_Token_File "` + token + `": a request has one Authorization header; keep one of the two`},
		{"several headers", func(c *Config) {
			c.Headers = []Header{{"a b", "hunter2"}, {"", "hunter2"}, {"x-a", ""}, {"X-B", "hunter2\r\nX-C: d"}, {"X-D", "hünter"}, {"X-E", "1"}, {"x-e", "2"}}
		}, `Headers: "a b" is not the name of a header: write letters, digits and hyphens
Headers: "" is not the name of a header: write letters, digits and hyphens
Headers: X-A has no value: write X-A: value
Headers: the value of X-B has a control or a non-ASCII character: remove it
Headers: the value of X-D has a control or a non-ASCII character: remove it
Headers: X-E is given twice: give it once`},
		{"Authorization and user", func(c *Config) {
			c.Username, c.Password, c.Headers = "me", "hunter2", []Header{{"Authorization", "hunter2"}}
		}, "Headers: Authorization is set, and so is HTTP_User: keep one of the two"},
		{"Authorization and token", func(c *Config) { c.BearerTokenFile, c.Headers = token, []Header{{"authorization", "hunter2"}} },
			"Headers: Authorization is set, and so is Bearer_Token_File: keep one of the two"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config("https://webhook")
			tt.set(&cfg)
			_, err := New(cfg)
			if err == nil || err.Error() != tt.want {
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			} else if strings.Contains(err.Error(), "hunter") {
				t.Errorf("shows a secret: %v", err)
			}
		})
	}
}

func TestHeadersThatDescribeTheRequestAreRefused(t *testing.T) {
	for _, name := range []string{"content-type", "Content-Length", "CONTENT-ENCODING", "Host", "Transfer-Encoding", "Connection", "Proxy-Authorization", "Expect", "TE", "Upgrade"} {
		cfg := config("https://webhook")
		cfg.Headers = []Header{{name, "hunter2"}}
		_, err := New(cfg)
		if want := "Headers: " + http.CanonicalHeaderKey(name) + " cannot be set: "; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: got %v, want %s...", name, err, want)
		}
	}
}

func TestAuthorizationBesideAKubeconfigsCredentials(t *testing.T) {
	dir := folder(t, map[string]string{"token": "t"})
	for _, tt := range []struct{ user, want string }{
		{"token: abc", "the token in Webhook_Config_File"},
		{"tokenFile: " + filepath.Join(dir, "token"), ""},
		{"username: me\npassword: x", "the username in Webhook_Config_File"},
	} {
		cfg := withKubeconfig(t, kubeconfig("server: https://webhook", tt.user))
		cfg.Headers = []Header{{"Authorization", "hunter2"}}
		if tt.want == "" {
			tt.want = `Webhook_Config_File "` + cfg.ConfigFile + `": tokenFile`
		}
		_, err := New(cfg)
		if want := "Headers: Authorization is set, and so is " + tt.want + ": keep one of the two"; err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
}

// net/http sends a POST with one of these again, on its own, when the answer to it was
// lost; and a receiver that knows them takes all requests for the same one.
func TestAnIdempotencyKeyIsRefused(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		cfg := config("http://webhook")
		cfg.Headers = []Header{{strings.ToLower(name), "1"}}
		_, err := New(cfg)
		if want := "Headers: " + name + " cannot be set: it would be the same for all requests, which are then taken for one"; err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
}
