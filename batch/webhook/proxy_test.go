// Tests of proxies from the environment. net/http reads the environment once in a
// process, so each test runs this test binary again as its own process.

package webhook

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
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
