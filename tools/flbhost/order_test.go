// Tests of the order of callbacks and the threads that they come on.
package flbhost

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestCallbacksComeInFluentBitsOrder(t *testing.T) {
	want := func(process string) []string {
		return []string{
			"preregister 0 on " + process,
			"register on " + process,
			"init a name=k8saudit Key=none retry_limit=none on flb-pipeline",
			"prerun 1 on flb-pipeline",
			"flush a 0 on flb-pipeline",
			"answer a 0 1 on flb-pipeline",
			"preexit 0 on flb-pipeline",
			"exit a on flb-pipeline",
			"unregister k8saudit on " + process,
		}
	}
	log := logFile(t, 0, 3)
	for _, tt := range []struct{ path, process string }{{hostPath, "flbhost"}, {staticPath, "flbhost-static"}} {
		t.Run(tt.process, func(t *testing.T) {
			h := start(t, tt.path, synchronous, "--set", "id=a", "--log", log)
			h.mustEnd()
			equal(t, h.calls(), want(tt.process))
			h.wantCounts("chunks 1 ok 1 retries 0 errors 0 left 0 flushes 1")
		})
	}
}

func TestInstancesHaveTheirOwnWorkersTagsAndExits(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--match", "kube.*", "--workers", "1",
		"--output", "--set", "id=b", "--match", "*.other",
		"--tag", "kube.audit", "--log", logFile(t, 0, 1), "--wait-signal",
		"--output", "--set", "id=c", "--match", "nobody", "--tag", "some.other", "--log", logFile(t, 1, 1))
	h.until("flush b")
	h.until("answer")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	var got []string
	for _, l := range h.lines {
		if strings.HasPrefix(l, "flush") || strings.HasPrefix(l, "exit") {
			fields := strings.Fields(l)
			got = append(got, strings.Join(slices.DeleteFunc(fields, func(f string) bool {
				return strings.HasPrefix(f, "size=") || strings.HasPrefix(f, "hash=")
			}), " "))
		}
	}
	slices.Sort(got[:2]) // two threads
	equal(t, got, []string{
		"flush a 0 tag=kube.audit on flb-out-k8saudi",
		"flush b 0 tag=some.other on flb-pipeline",
		"exit a on flb-pipeline",
		"exit b on flb-pipeline",
		"exit c on flb-pipeline",
	})
}

func TestSynchronousPluginGetsOneChunkAtATime(t *testing.T) {
	args := []string{"--set", "id=a", "--set", "delay_ms=100", "--workers", "2", "--chunk-records", "1",
		"--log", logFile(t, 0, 2)}
	const first, second = "flush a", "answer a"
	steps := func(h *host) []string {
		var out []string
		for _, l := range h.lines {
			for _, p := range []string{first, second} {
				if strings.HasPrefix(l, p) {
					out = append(out, p)
				}
			}
		}
		return out
	}
	for _, tt := range []struct {
		name, flags string
		extra       []string
		want        []string
	}{
		{"asked for", synchronous, nil, []string{first, second, first, second}},
		{"ignored", synchronous, []string{"--ignore-synchronous"}, []string{first, first, second, second}},
		{"not asked for", "0", nil, []string{first, first, second, second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t, hostPath, tt.flags, slices.Concat(args, tt.extra)...)
			h.mustEnd()
			equal(t, steps(h), tt.want)
		})
	}
}

func TestHiddenCtxFallsBackToThePlainCalls(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--hide-ctx", "--log", logFile(t, 0, 1))
	h.mustEnd()
	equal(t, h.calls()[4:], []string{
		"plain flush on flb-pipeline",
		"flush a 0 on flb-pipeline",
		"answer a 0 1 on flb-pipeline",
		"preexit 0 on flb-pipeline",
		"plain exit on flb-pipeline",
		"unregister k8saudit on flbhost",
	})
}

func TestFailedInitLetsEarlierInstancesExit(t *testing.T) {
	for _, answer := range []string{"0", "-1"} {
		h := start(t, hostPath, synchronous, "--set", "id=a", "--workers", "1",
			"--output", "--set", "id=b", "--set", "init="+answer, "--log", logFile(t, 0, 1))
		if status := h.end(); status != 1 {
			t.Errorf("Init answered %s: exit status %d, want 1", answer, status)
		}
		equal(t, h.lines[2:], []string{
			"init a name=k8saudit Key=none retry_limit=none on flb-pipeline",
			"init b name=k8saudit Key=none retry_limit=none on flb-pipeline",
			"preexit 0 on flb-pipeline",
			"exit a on flb-pipeline",
			"unregister k8saudit on flbhost",
		})
	}
}

func TestInitAnsweringRetryIsSuccess(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--set", "init=2", "--log", logFile(t, 0, 1))
	h.mustEnd()
	h.wantCounts("chunks 1 ok 1 retries 0 errors 0 left 0 flushes 1")
}

func TestReloadRegistersBeforeTheOldInstancesExit(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--set", "answers=retry", "--workers", "1",
		"--grace", "0", "--log", logFile(t, 0, 1))
	h.until("answer")
	h.signal(syscall.SIGHUP)
	h.until("answer")
	h.signal(syscall.SIGTERM)
	h.mustEnd()
	equal(t, h.calls(), []string{
		"preregister 0 on flbhost",
		"register on flbhost",
		"init a name=k8saudit Key=none retry_limit=none on flb-pipeline",
		"prerun 1 on flb-pipeline",
		"flush a 0 on flb-out-k8saudi",
		"answer a 0 2 on flb-out-k8saudi",
		"preregister 1 on flbhost",
		"register on flbhost",
		"preexit 1 on flb-pipeline",
		"exit a on flb-pipeline",
		"unregister k8saudit on flbhost",
		"init a name=k8saudit Key=none retry_limit=none on flb-pipeline",
		"prerun 1 on flb-pipeline",
		"flush a 0 on flb-out-k8saudi",
		"answer a 0 2 on flb-out-k8saudi",
		"preexit 0 on flb-pipeline",
		"exit a on flb-pipeline",
		"unregister k8saudit on flbhost",
	})
	if c := h.chunks(); len(c) != 2 || c[0] != c[1] {
		t.Errorf("the new instance got %q, want the same bytes twice", c)
	}
	if left := h.count("left"); left != 1 {
		t.Errorf("left %d, want 1", left)
	}
}

func TestReloadAfterAnswers(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "id=a", "--chunk-records", "1", "--reload-after", "2",
		"--interval", "20", "--log", logFile(t, 0, 4))
	h.mustEnd()
	inits := 0
	for _, l := range h.lines {
		if strings.HasPrefix(l, "init") {
			inits++
		}
	}
	if inits != 2 {
		t.Errorf("%d inits, want 2", inits)
	}
	h.wantCounts("chunks 4 ok 4 retries 0 errors 0 left 0 flushes 4")
}

func TestPropertiesReachThePluginAsFluentBitHandsThemOut(t *testing.T) {
	h := start(t, hostPath, synchronous, "--set", "ID=a", "--set", "kEy=first", "--set", "Key=second",
		"--set", "Retry_Limit=no_limits", "--set", "Workers=1", "--log", logFile(t, 0, 1))
	h.mustEnd()
	equal(t, h.calls()[2:5], []string{
		"init a name=k8saudit Key=first retry_limit=none on flb-pipeline",
		"prerun 1 on flb-pipeline",
		"flush a 0 on flb-out-k8saudi",
	})
}

func TestDaemonForksAfterRegisteringAndReusesDescriptors(t *testing.T) {
	for _, tt := range []struct{ name, print, init, wrote, exit string }{
		{"refusing and quiet", "off", "0", "daemon fd1_bytes 0 fd2_bytes 0", "daemon exit 1"},
		{"writing", "on", "1", "daemon fd1_bytes 3 fd2_bytes 5", "daemon exit 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := filepath.Join(t.TempDir(), "status")
			h := start(t, hostPath, synchronous, "--daemon", "--status-file", status, "--set", "id=a",
				"--set", "print="+tt.print, "--set", "init="+tt.init)
			h.mustEnd() // the parent; the record ends with the child
			b, err := os.ReadFile(status)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"daemon init " + tt.init, tt.wrote} {
				if !strings.Contains(string(b), "flbhost: "+want+"\n") {
					t.Errorf("no %q in the status file:\n%s", want, b)
				}
			}
		})
	}
}

func TestWrongUsageEndsWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{"--grace", "-1"}, {"--set", "novalue"}, {"--set", "tls=on"}, {"--nonsense"},
		{"--position", "p"}, {"--chunk-records", "1.5"}, {"--daemon"},
	} {
		h := start(t, hostPath, "0", args...)
		if status := h.end(); status != 2 {
			t.Errorf("%q: exit status %d, want 2:\n%s", args, status, h.stderr.String())
		}
	}
}
