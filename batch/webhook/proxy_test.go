// Tests of proxies. net/http reads the environment once in a process, so those that
// need another one run this test binary again as their own process.

package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// proxyHelper names the URL for the process that only sends one body.
const proxyHelper = "WEBHOOK_TEST_SEND_TO"

func proxyHelperMain() int {
	c, err := New(config(os.Getenv(proxyHelper)))
	if err == nil {
		defer c.Close()
		err = c.Send(context.Background(), []byte(list))
	}
	fmt.Print(err)
	return 0
}

// sendElsewhere runs Send to url in a process with the environment env, and returns
// what it returned.
func sendElsewhere(t *testing.T, url string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append([]string{proxyHelper + "=" + url}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, stderr %q", err, &stderr)
	}
	return string(out)
}

func TestProxyOfTheEnvironmentIsUsed(t *testing.T) {
	address, lines := rawServer(t, "")
	got := sendElsewhere(t, "http://webhook.invalid:8080/a%2Fb//c?x=1", "HTTP_PROXY=http://"+address)
	if got != "<nil>" {
		t.Fatalf("Send: %s", got)
	}
	if got, want := <-lines, "POST http://webhook.invalid:8080/a%2Fb//c?x=1 HTTP/1.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoProxyIsHonoured(t *testing.T) {
	address, lines := rawServer(t, "")
	got := sendElsewhere(t, "http://"+address+"/audit", "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1")
	if got != "<nil>" {
		t.Fatalf("Send: %s", got)
	}
	if got, want := <-lines, "POST /audit HTTP/1.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProxyURLGoesBeforeTheEnvironment(t *testing.T) {
	address, lines := rawServer(t, "")
	t.Setenv("NO_PROXY", "*")
	cfg := config("http://webhook.invalid:8080/audit")
	cfg.ProxyURL = "http://" + address
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-lines, "POST http://webhook.invalid:8080/audit HTTP/1.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// tunnel is a proxy that speaks CONNECT, to whatever address is asked for, and leads to
// backend.
func tunnel(t *testing.T, backend string, asked chan<- string) string {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
		if r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		there, err := net.Dial("tcp", backend)
		if err != nil {
			t.Error(err)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here); there.Close() }()
		_, _ = io.Copy(here, there)
		here.Close()
	})
	return s.Listener.Addr().String()
}

func TestHTTPSGoesThroughAProxyWithItsCredentials(t *testing.T) {
	a := newAuthority(t, "ours")
	url, came := tlsServer(t, a, "webhook.invalid", nil)
	asked := make(chan string, 2)
	proxy := tunnel(t, strings.TrimPrefix(url, "https://"), asked)
	cfg := config("https://webhook.invalid/audit")
	cfg.CAFile, cfg.ProxyURL = file(t, a.pem), "http://me:hunter2@"+proxy
	if err := client(t, cfg).Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-came, "webhook.invalid HTTP/1.1"; got != want {
		t.Errorf("came %q, want %q", got, want)
	}
	if got, want := <-asked, "CONNECT webhook.invalid:443 Basic bWU6aHVudGVyMg=="; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}

	cfg.ProxyURL = "http://" + proxy
	err := client(t, cfg).Send(t.Context(), []byte(list))
	if want := "POST https://webhook.invalid/audit: Proxy Authentication Required"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// socks5 is a proxy of RFC 1928 without authentication that leads to backend.
func socks5(t *testing.T, backend string, asked chan<- string) string {
	return handler(t, func(_ int, conn *net.TCPConn) {
		read := func(n int) []byte {
			b := make([]byte, n)
			_, _ = io.ReadFull(conn, b)
			return b
		}
		read(int(read(2)[1]))
		_, _ = conn.Write([]byte{5, 0})
		name := read(int(read(5)[4])) // address type 3, a name
		port := read(2)
		asked <- fmt.Sprintf("%s:%d", name, int(port[0])<<8|int(port[1]))
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		there, err := net.Dial("tcp", backend)
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(there, conn); there.Close() }()
		_, _ = io.Copy(conn, there)
	})
}

func TestSOCKS5Proxy(t *testing.T) {
	address, lines := rawServer(t, "")
	asked := make(chan string, 1)
	cfg := config("http://webhook.invalid:8080/audit")
	cfg.ProxyURL = "socks5://" + socks5(t, address, asked)
	c := client(t, cfg)
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-asked, "webhook.invalid:8080"; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
	if got, want := <-lines, "POST /audit HTTP/1.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.Close()
}

func TestFaultsOfProxyURL(t *testing.T) {
	const want = "give it as http://, https:// or socks5://[user:password@]host[:port]"
	for _, tt := range []struct{ url, want string }{
		{"proxy:3128", `scheme "proxy" is not supported: ` + want},
		{"proxy", `scheme "" is not supported: ` + want},
		{"ftp://me:hunter2@proxy", `scheme "ftp" is not supported: ` + want},
		{"http://", "has no host: " + want},
		{"http://me:hunter2/x@proxy", "not a valid URL (not shown, it may hold a password): " + want},
		{"http://proxy:99999", "port 99999: give a port from 1 to 65535"},
		{"http://proxy/hunter2", "has a path, a query or a fragment, which a proxy has not: " + want},
	} {
		cfg := config("https://webhook")
		cfg.ProxyURL = tt.url
		_, err := New(cfg)
		if err == nil || err.Error() != "Proxy_URL: "+tt.want {
			t.Errorf("%s\n got %v\nwant Proxy_URL: %s", tt.url, err, tt.want)
		}
	}
}
