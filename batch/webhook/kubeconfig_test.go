// Tests of Webhook_Config_File.

package webhook

import (
	"crypto/tls"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfig is what these four write, with the given fields of cluster and user:
//
//	kubectl config set-cluster audit --server=...
//	kubectl config set-credentials fluent-bit ...
//	kubectl config set-context audit --cluster=audit --user=fluent-bit
//	kubectl config use-context audit
func kubeconfig(cluster, user string) string {
	fields := func(s string) string {
		if s == "" {
			return " {}\n"
		}
		return "\n    " + strings.ReplaceAll(s, "\n", "\n    ") + "\n"
	}
	return "apiVersion: v1\nclusters:\n- cluster:" + fields(cluster) + "  name: audit\n" +
		"contexts:\n- context:\n    cluster: audit\n    user: fluent-bit\n  name: audit\ncurrent-context: audit\n" +
		"kind: Config\nusers:\n- name: fluent-bit\n  user:" + fields(user)
}

// withKubeconfig is a valid Config for a kubeconfig of that content.
func withKubeconfig(t *testing.T, content string) Config {
	t.Helper()
	cfg := config("")
	cfg.ConfigFile = file(t, content)
	return cfg
}

// folder writes files into a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// authServer asks for what it is given, over TLS by a.
func authServer(t *testing.T, a *authority, authorization string) string {
	t.Helper()
	certPEM, keyPEM := a.issue(t, "127.0.0.1")
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s := unstarted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if got := r.Header.Get("Authorization"); got != authorization {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "got "+got)
		}
	})
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	return s.URL
}

func TestKubeconfigWithPathsRelativeToItself(t *testing.T) {
	a, clients := newAuthority(t, "ours"), newAuthority(t, "clients")
	url, came := tlsServer(t, a, "audit.example", clients)
	certPEM, keyPEM := clients.issue(t, "k8saudit")
	dir := folder(t, map[string]string{
		"conf/kubeconfig": kubeconfig("certificate-authority: pki/ca.crt\nserver: "+url+"/audit\ntls-server-name: audit.example",
			"client-certificate: ../client.crt\nclient-key: ../client.key"),
		"conf/pki/ca.crt": a.pem, "client.crt": certPEM, "client.key": keyPEM,
	})
	cfg := config("")
	cfg.ConfigFile = filepath.Join(dir, "conf/kubeconfig")
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != "audit.example HTTP/1.1 k8saudit" {
		t.Errorf("came %q", got)
	}
	// And when the kubeconfig itself is named relatively.
	t.Chdir(dir)
	cfg.ConfigFile = "conf/kubeconfig"
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	<-came
}

func TestKubeconfigWithEverythingAsData(t *testing.T) {
	a, clients := newAuthority(t, "ours"), newAuthority(t, "clients")
	url, came := tlsServer(t, a, "127.0.0.1", clients)
	certPEM, keyPEM := clients.issue(t, "k8saudit")
	data := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	cfg := withKubeconfig(t, kubeconfig("certificate-authority-data: "+data(a.pem)+"\nserver: "+url,
		"client-certificate-data: "+data(certPEM)+"\nclient-key-data: "+data(keyPEM)))
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got := <-came; got != " HTTP/1.1 k8saudit" {
		t.Errorf("came %q", got)
	}
}

func TestKubeconfigInsecure(t *testing.T) {
	url, came := tlsServer(t, newAuthority(t, "theirs"), "elsewhere.example", nil)
	cfg := withKubeconfig(t, kubeconfig("insecure-skip-tls-verify: true\nserver: "+url, ""))
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	<-came
}

func TestCredentialsOfAKubeconfig(t *testing.T) {
	a := newAuthority(t, "ours")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass word"))
	for _, tt := range []struct{ name, user, authorization string }{
		{"token", "token: abc", "Bearer abc"},
		{"token file", "tokenFile: token", "Bearer from-file"},
		{"token file before token", "token: abc\ntokenFile: token", "Bearer from-file"},
		{"basic", "username: me\npassword: pass word", basic},
		{"none", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, map[string]string{
				"ca.crt": a.pem, "token": "from-file\n",
				"kubeconfig": kubeconfig("certificate-authority: ca.crt\nserver: "+authServer(t, a, tt.authorization), tt.user),
			})
			cfg := config("")
			cfg.ConfigFile = filepath.Join(dir, "kubeconfig")
			if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCredentialsOfAKubeconfigThatAreRefused(t *testing.T) {
	a := newAuthority(t, "ours")
	url := authServer(t, a, "something else")
	dir := folder(t, map[string]string{"ca.crt": a.pem, "token": "from-file\n"})
	path := filepath.Join(dir, "kubeconfig")
	for _, tt := range []struct{ user, want string }{
		{"token: abcdef", `(the token of the user in Webhook_Config_File is not accepted): "got Bearer [secret]"`},
		{"tokenFile: token", `(the token is read again from Webhook_Config_File "` + path + `": tokenFile): "got Bearer [secret]"`},
		{"username: me\npassword: hunter2", `(the user name and password are not accepted): "got Basic [secret]"`},
		{"", `(no credentials are sent: the user of Webhook_Config_File has none, or its server is not https): "got"`},
	} {
		if err := os.WriteFile(path, []byte(kubeconfig("certificate-authority: ca.crt\nserver: "+url, tt.user)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := config("")
		cfg.ConfigFile = path
		err := client(t, cfg).Send(t.Context(), []byte(list))
		if want := "POST " + url + ": answered 401 Unauthorized " + tt.want; err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
}

// As kubectl and kube-apiserver do.
func TestKubeconfigSendsNoCredentialsWithoutTLS(t *testing.T) {
	got := ""
	s := server(t, func(w http.ResponseWriter, r *http.Request) { got = "authorization " + r.Header.Get("Authorization") })
	cfg := withKubeconfig(t, kubeconfig("server: "+s.URL, "token: abc"))
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got != "authorization " {
		t.Errorf("got %q, want none", got)
	}
}

func TestTheServerOfAKubeconfigGoesOutExactly(t *testing.T) {
	address, lines := rawServer(t, "")
	const path = "/a%2Fb//c/?x=1&y=%20;z"
	cfg := withKubeconfig(t, kubeconfig("server: http://"+address+path, ""))
	c := client(t, cfg)
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-lines, "POST "+path+" HTTP/1.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c.Target(), "http://"+address+"/a%2Fb//c/"; got != want {
		t.Errorf("Target %q, want %q", got, want)
	}
	if c.Host() != address {
		t.Errorf("Host %q, want %q", c.Host(), address)
	}
}

func TestTheProxyOfAKubeconfigIsUsed(t *testing.T) {
	address, lines := rawServer(t, "")
	cfg := withKubeconfig(t, kubeconfig("proxy-url: http://"+address+"\nserver: http://webhook.invalid:8080/audit", ""))
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-lines, "POST http://webhook.invalid:8080/audit HTTP/1.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Of several contexts the current one counts, and neither KUBECONFIG nor the home
// folder's file adds to it.
func TestOnlyTheCurrentContextOfTheNamedFileCounts(t *testing.T) {
	address, lines := rawServer(t, "")
	other := file(t, strings.NewReplacer("name: audit", "name: other", "current-context: audit", "current-context: other").Replace(
		kubeconfig("server: http://127.0.0.1:1", "")))
	t.Setenv("KUBECONFIG", other)
	t.Setenv("KUBERNETES_MASTER", "http://127.0.0.1:1")
	content := strings.Replace(kubeconfig("server: http://"+address, ""), "contexts:\n",
		"- cluster:\n    server: http://127.0.0.1:1\n  name: first\ncontexts:\n- context:\n    cluster: first\n    user: \"\"\n  name: first\n", 1)
	if err := client(t, withKubeconfig(t, content)).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	<-lines
	content = strings.Replace(content, "current-context: audit", `current-context: ""`, 1)
	cfg := withKubeconfig(t, content)
	_, err := New(cfg)
	if want := `Webhook_Config_File "` + cfg.ConfigFile + `": has no current-context: name the context to use there`; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

func TestFaultsOfAKubeconfig(t *testing.T) {
	a := newAuthority(t, "a")
	certPEM, keyPEM := a.issue(t, "x")
	data := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	const server = "server: https://webhook/audit"
	for _, tt := range []struct{ name, content, want string }{
		{"not YAML", "{", "give a readable kubeconfig"},
		{"empty", "", "has no current-context: name the context to use there"},
		{"no such context", strings.Replace(kubeconfig(server, ""), "current-context: audit", "current-context: prod", 1),
			`current-context "prod" is not among its contexts: name one that is`},
		{"no such cluster", strings.Replace(kubeconfig(server, ""), "cluster: audit", "cluster: prod", 1),
			`cluster "prod" of context "audit" is not among its clusters: name one that is`},
		{"no such user", strings.Replace(kubeconfig(server, ""), "user: fluent-bit", "user: me", 1),
			`user "me" of context "audit" is not among its users: name one that is, or none`},
		{"no server", kubeconfig("insecure-skip-tls-verify: true", ""), `cluster "audit" has no server: give the webhook's address there`},
		{"server without scheme", kubeconfig("server: webhook:8080", ""),
			`server: scheme "webhook" is not supported: give it as http(s)://host[:port]/path[?query]`},
		{"password in server", kubeconfig("server: https://me:hunter2@webhook", ""),
			"server: holds a user name or password (not shown), and credentials in the URL are not accepted: use the username and password of its user"},
		{"exec", kubeconfig(server, "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  command: get-token"),
			`user "fluent-bit" gets its credentials from a command (exec), which this plugin does not run inside Fluent Bit: use a token, tokenFile, client certificate, or username and password`},
		{"auth-provider", kubeconfig(server, "auth-provider:\n  name: oidc\n  config:\n    id-token: hunter2"),
			`user "fluent-bit" has an auth-provider, which is not supported: use a token, tokenFile, client certificate, or username and password`},
		{"proxy", kubeconfig(server+"\nproxy-url: ftp://me:hunter2@proxy", ""),
			`proxy-url: scheme "ftp" is not supported: give it as http://, https:// or socks5://[user:password@]host[:port]`},
		{"CA missing", kubeconfig(server+"\ncertificate-authority: missing.crt", ""), "missing.crt: no such file or directory"},
		{"CA garbage", kubeconfig(server+"\ncertificate-authority-data: "+data("garbage"), ""),
			"certificate-authority-data: it has no valid PEM certificate (7 bytes): give the certificates of the authority that signed the webhook's"},
		{"CA and insecure", kubeconfig(server+"\ninsecure-skip-tls-verify: true\ncertificate-authority-data: "+data(a.pem), ""),
			"insecure-skip-tls-verify: true, together with certificate-authority: no certificate would be checked against it; keep one of the two"},
		{"certificate without key", kubeconfig(server, "client-certificate-data: "+data(certPEM)),
			"client-key-data or client-key must be specified for fluent-bit to use the clientCert authentication method."},
		{"certificates that do not match", kubeconfig(server, "client-certificate-data: "+data(a.pem)+"\nclient-key-data: "+data(keyPEM)),
			"client-key: tls: private key does not match public key: give a PEM certificate and the private key that belongs to it"},
		{"token and password", kubeconfig(server, "token: hunter2\nusername: me\npassword: hunter3"),
			"more than one authentication method found for fluent-bit; found [token basicAuth], only one is allowed"},
		{"token of two lines", kubeconfig(server, `token: "hunter2\nhunter3"`),
			"token: has a space, a line break or another character that a token cannot have after 7 bytes"},
		{"token file missing", kubeconfig(server, "tokenFile: missing"), "missing: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withKubeconfig(t, tt.content)
			_, err := New(cfg)
			if err == nil || !strings.HasPrefix(err.Error(), `Webhook_Config_File "`+cfg.ConfigFile+`": `) || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			} else if strings.Contains(err.Error(), "hunter") {
				t.Errorf("shows a secret: %v", err)
			}
		})
	}
	cfg := config("")
	cfg.ConfigFile = filepath.Join(t.TempDir(), "missing")
	_, err := New(cfg)
	if want := `Webhook_Config_File "` + cfg.ConfigFile + `": stat ` + cfg.ConfigFile + ": no such file or directory: give a readable kubeconfig"; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

func TestKeysThatAKubeconfigReplacesAreRefused(t *testing.T) {
	cfg := withKubeconfig(t, kubeconfig("server: https://webhook/audit", ""))
	cfg.CAFile, cfg.CertFile, cfg.KeyFile, cfg.ServerName, cfg.InsecureSkipVerify, cfg.BearerTokenFile = "/ca", "/cert", "/key", "x", true, "/token"
	cfg.Username, cfg.Password, cfg.ProxyURL = "me", "hunter2", "http://proxy"
	_, err := New(cfg)
	var want []string
	for _, k := range [][2]string{
		{"CA_File", "certificate-authority"}, {"Cert_File", "client-certificate"}, {"Key_File", "client-key"}, {"Server_Name", "tls-server-name"},
		{"Insecure_Skip_Verify", "insecure-skip-tls-verify"}, {"Bearer_Token_File", "tokenFile"},
		{"HTTP_User", "username"}, {"HTTP_Passwd", "password"}, {"Proxy_URL", "proxy-url"},
	} {
		want = append(want, k[0]+`: set, together with Webhook_Config_File "`+cfg.ConfigFile+`": write `+k[1]+" into that file, or leave "+k[0]+" out")
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("\n got %v\nwant %s", err, strings.Join(want, "\n"))
	}

	cfg = config("https://webhook")
	cfg.ConfigFile = "/etc/audit/kubeconfig"
	_, err = New(cfg)
	if want := `Webhook_Config_File: "/etc/audit/kubeconfig", together with URL: either says where to send; keep one of the two`; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}
