package plugin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestInstancesShareTheDrainTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Process{Log: &logBuffer{}}
		hang := func(ctx context.Context, _ int, _ []string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		var all []*Instance
		for i := range 3 {
			in := startedIn(t, p, &receiver{answer: hang}, "Drain_Timeout", "10s")
			if answer := flush(in, chunk(event(i))); answer != Retry {
				t.Fatalf("answer %d", answer)
			}
			all = append(all, in)
		}
		var took []time.Duration
		for _, in := range all {
			start := time.Now()
			in.Exit()
			took = append(took, time.Since(start))
		}
		if took[0] != 10*time.Second || took[1] != time.Second || took[2] != time.Second {
			t.Errorf("the exits took %v, want the drain time for the first, a second for each other", took)
		}
		// The next ones in this process, after a reload, have the whole time again.
		in := startedIn(t, p, &receiver{answer: hang}, "Drain_Timeout", "10s")
		flush(in, chunk(event(9)))
		start := time.Now()
		in.Exit()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("after a reload the exit took %v, want 10s", took)
		}
	})
}

func TestExitTwiceAndAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Process{Log: &logBuffer{}}
		r := &receiver{answer: sleeping(2 * time.Second)}
		in := startedIn(t, p, r)
		go flush(in, chunk(event(1)))
		synctest.Wait()
		start := time.Now()
		go in.Exit()
		p.ExitAll()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want the 2s of the request under way", took)
		}
		in.Exit()
		synctest.Wait()
		if !r.closed {
			t.Error("the client is not closed")
		}
		if p.Only() != nil || len(p.instances) != 0 {
			t.Error("the instance is still listed")
		}
		r.wantGot(t, event(1))
	})
}

func TestAHostThatNamesNoInstanceServesTheOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		p := &Process{Log: log}
		if answer := p.FlushOnly(chunk(event(0)), "t"); answer != Retry {
			t.Errorf("without an instance: answer %d, want RETRY", answer)
		}
		r := &receiver{}
		startedIn(t, p, r)
		if answer := p.FlushOnly(chunk(event(1)), "t"); answer != OK {
			t.Errorf("with one instance: answer %d, want OK", answer)
		}
		startedIn(t, p, &receiver{})
		if answer := p.FlushOnly(chunk(event(2)), "t"); answer != Retry {
			t.Errorf("with two instances: answer %d, want RETRY", answer)
		}
		p.ExitAll()
		r.wantGot(t, event(1))
		if n := log.count("does not say which of several outputs"); n != 2 {
			t.Errorf("told %d times:\n%s", n, log)
		}
	})
}

func TestAFailedInitLeavesNothingBehindAndNamesEveryFault(t *testing.T) {
	defer goleak.VerifyNone(t)
	log := &logBuffer{}
	p := &Process{Log: log}
	in, err := p.Init(from("URL", "https://user:secret@webhook/x", "CA_File", "/does/not/exist.pem", "Batch_Max_Size", "none"))
	if in != nil || err == nil {
		t.Fatal("Init succeeded")
	}
	if len(p.instances) != 0 {
		t.Error("an instance is listed")
	}
	for _, want := range []string{"URL: ", "CA_File: ", "/does/not/exist.pem", `Batch_Max_Size "none"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not name %s:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log holds the credentials:\n%s", log)
	}
	if _, err := p.Init(from("Mode", "fast", "Batch_Max_Size", "0")); err == nil {
		t.Error("Init succeeded")
	}
	for _, want := range []string{"URL: not set", `Mode "fast"`, `Batch_Max_Size "0"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not name %s:\n%s", want, log)
		}
	}
}

func TestInitWorksAgainAfterFailureAndExit(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := &Process{Version: "v1.2.3", Log: &logBuffer{}}
	_, _ = p.Init(from())
	_, _ = p.Init(from("Instance", "audit"))
	for _, want := range []string{"[output:k8saudit:0] URL: not set", "[output:k8saudit:audit] URL: not set"} {
		if n := p.Log.(*logBuffer).count(want); n != 1 {
			t.Errorf("%d lines say %s", n, want)
		}
	}
	for range 3 {
		in, err := p.Init(from("URL", "http://127.0.0.1:1/x?token=secret"))
		if err != nil {
			t.Fatal(err)
		}
		in.Exit()
	}
	log := p.Log.(*logBuffer)
	if log.count("started, version v1.2.3") != 3 || strings.Contains(log.String(), "secret") {
		t.Errorf("log:\n%s", log)
	}
}

func TestAnInstanceOfAKubeconfigIsNamedAfterItsServer(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("clusters: [{name: c, cluster: {server: 'https://webhook.example:8443/audit?token=secret'}}]\n"+
		"contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	in, err := (&Process{Version: "test", Log: log}).Init(from("webhook_config_file", kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	in.Exit()
	want := "[output:k8saudit:0:webhook.example:8443] started, version test, posts to https://webhook.example:8443/audit: webhook_config_file=" + kubeconfig + " "
	if log.count(want) != 1 || log.count("secret") != 0 {
		t.Errorf("want %s in\n%s", want, log)
	}
}

// waitingLog closes seen once it holds text.
type waitingLog struct {
	logBuffer
	text string
	once sync.Once
	seen chan struct{}
}

func (l *waitingLog) Write(p []byte) (int, error) {
	n, err := l.logBuffer.Write(p)
	if l.count(l.text) > 0 {
		l.once.Do(func() { close(l.seen) })
	}
	return n, err
}

func TestAFileThatIsReplacedByABrokenOneIsToldOf(t *testing.T) {
	defer goleak.VerifyNone(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = os.WriteFile(token, nil, 0o600)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	log := &waitingLog{text: "a file that was replaced cannot be used", seen: make(chan struct{})}
	in, err := (&Process{Log: log}).Init(from("URL", server.URL, "Insecure_Skip_Verify", "On", "Bearer_Token_File", token,
		"Initial_Backoff", "10ms", "Max_Backoff", "10ms", "Drain_Timeout", "0"))
	if err != nil {
		t.Fatal(err)
	}
	go in.Flush(chunk(event(0)), "t")
	<-log.seen
	in.Exit()
	if want := `[output:k8saudit:0:` + strings.TrimPrefix(server.URL, "https://") + `] a file that was replaced cannot be used error="Bearer_Token_File: `; log.count(want) != 1 || log.count(token) < 1 {
		t.Errorf("want once %s:\n%s", want, log)
	}
}
