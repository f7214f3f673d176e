package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file runs the configurations that the project ships, as they are but for
// addresses and paths, on a real Fluent Bit.

// shipped starts Fluent Bit with a configuration of the project's root.
func shipped(t *testing.T, dir, name string, replace ...string) *process {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(b), replace[i]) {
			t.Fatalf("%s does not name %s", name, replace[i])
		}
	}
	conf := filepath.Join(dir, name)
	if err := os.WriteFile(conf, []byte(strings.NewReplacer(replace...).Replace(string(b))), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, fluentBit, "-q", "--enable-hot-reload", "-e", plugin, "-c", conf)
}

const (
	shippedURL   = "https://audit-webhook.example.com/audit"
	shippedLog   = "/var/log/kubernetes/audit/audit*.log"
	shippedState = "/var/lib/fluent-bit"
)

// What is rotated while Fluent Bit is away is read when it is back, with the rest of it.
func TestShippedTailConfigurations(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		for _, name := range []string{"fluent-bit.conf", "fluent-bit.yaml"} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				log := newRotatedLog(t, dir)
				log.lines = auditLog(t, "requestresponse")
				piece := len(log.lines) / 4
				r := receive(t, dir, log.pattern(), "")
				for range 2 {
					log.write(piece)
					p := shipped(t, dir, name, shippedURL, r.url, shippedLog, log.pattern(), shippedState, dir)
					until(t, "all events are stored", func() bool { return r.stored() >= log.events() })
					p.stop()
					log.write(piece)
					log.rotate()
				}
				p := shipped(t, dir, name, shippedURL, r.url, shippedLog, log.pattern(), shippedState, dir)
				until(t, "all events are stored", func() bool { return r.stored() >= log.events() })
				p.stop()
				r.wantAll(log.events())
			})
		}
	})
}

// A reload that waits for the webhook would never end here.
func TestShippedConfigurationsReloadWhileTheWebhookIsDown(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		for name, workers := range map[string][2]string{
			"fluent-bit.conf": {"Workers                   1", "Workers 0"},
			"fluent-bit.yaml": {"workers: 1", "workers: 0"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const bound = (5 + 4 + 10 + 3) * time.Second // Grace, Flush_Timeout, Drain_Timeout, and 3 s
				dir := t.TempDir()
				log, pattern := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit*.log")
				lines := auditLog(t, "requestresponse")
				writeLines(t, log, lines)
				r := receive(t, dir, log, "")
				address := r.address()
				r.stop()
				p := shipped(t, dir, name, shippedURL, r.url, shippedLog, pattern, shippedState, dir, workers[0], workers[1])
				until(t, "the webhook counts as down", func() bool { return strings.Contains(p.String(), "the webhook is down") })
				took := p.reload()
				r = receive(t, dir, log, address)
				until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
				ended := p.stop()
				t.Logf("the reload took %v, the end %v", took.Round(time.Millisecond), ended.Round(time.Millisecond))
				if took > bound || ended > bound {
					t.Errorf("want both within %v", bound)
				}
				r.wantAll(len(lines))
			})
		}
	})
}

func TestShippedRelayConfigurations(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		for _, name := range []string{"relay.conf", "relay.yaml"} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				lines := auditLog(t, "metadata")
				writeLines(t, log, lines)
				r := receive(t, dir, log, "", "-semantic")
				p, post := relay(t, dir, name, r)
				// As kube-apiserver posts: up to 400 events, without kind and apiVersion.
				for from := 0; from < len(lines); from += 400 {
					items := strings.Join(lines[from:min(from+400, len(lines))], ",")
					items = strings.ReplaceAll(items, `{"kind":"Event","apiVersion":"audit.k8s.io/v1",`, `{`)
					body := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + items + `]}`
					post.send(body)
				}
				until(t, "all events are stored", func() bool { return r.stored() >= len(lines) })
				p.stop()
				r.wantAll(len(lines))
			})
		}
	})
}

// relay starts Fluent Bit with a relay configuration of the project's root, before r,
// and returns how to post to it.
func relay(t *testing.T, dir, name string, r *receiver) (*process, poster) {
	t.Helper()
	port := freePort(t)
	address := "127.0.0.1:" + port
	p := shipped(t, dir, name, shippedURL, r.url, shippedState, dir, "9880", port)
	until(t, "Fluent Bit listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil || p.ended()
	})
	return p, poster{t, address}
}

// poster posts as kube-apiserver does.
type poster struct {
	t       *testing.T
	address string
}

// send posts a body, which Fluent Bit has when it returns.
func (p poster) send(body string) {
	p.t.Helper()
	answer, err := http.Post("http://"+p.address+"/kube.audit?timeout=30s", "application/json", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		p.t.Fatalf("Fluent Bit answered %s", answer.Status)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
