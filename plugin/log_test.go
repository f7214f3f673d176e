package plugin

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogLinesHaveFluentBitsForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		l := newLogger(log, "0:webhook:443", slog.LevelDebug)
		l.Info("started")
		l.With("a", 1).Warn("a request failed", "error", errors.New("bad \"thing\"\nhere"), "n", 3)
		l.Error("x")
		l.Debug("y")
		day := time.Now().Format("2006/01/02 15:04:05.000")
		want := strings.ReplaceAll(`[T] [ info] [output:k8saudit:0:webhook:443] started
[T] [ warn] [output:k8saudit:0:webhook:443] a request failed a=1 error="bad \"thing\"\nhere" n=3
[T] [error] [output:k8saudit:0:webhook:443] x
[T] [debug] [output:k8saudit:0:webhook:443] y
`, "[T]", "["+day+"]")
		if got := log.String(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
}

func TestLevelOffWritesNothing(t *testing.T) {
	log := &logBuffer{}
	newLogger(log, "x", levelOff).Error("x")
	if log.String() != "" {
		t.Errorf("got %q", log)
	}
}

func TestARepeatingFaultIsToldOncePerIntervalWithItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		r := &repeats{log: newLogger(log, "x", slog.LevelInfo)}
		for range 150 { // two and a half minutes
			r.tell(slog.LevelWarn, "kind", "fault", "of", "x")
			time.Sleep(time.Second)
		}
		r.flush()
		r.flush()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		var tails []string
		for _, line := range lines {
			tails = append(tails, line[strings.Index(line, "fault"):])
		}
		if got := strings.Join(tails, ","); got != "fault of=x,fault of=x times_since=60,fault of=x times_since=60,fault of=x times_since=29" {
			t.Errorf("told: %s", got)
		}
	})
}

func TestTheFaultsRememberedAreBounded(t *testing.T) {
	r := &repeats{log: newLogger(&logBuffer{}, "x", slog.LevelInfo)}
	for i := range 10 * maxRepeats {
		r.tell(slog.LevelWarn, event(i), "fault")
	}
	if len(r.kinds) != maxRepeats || len(r.order) != maxRepeats {
		t.Errorf("%d faults in an order of %d remembered", len(r.kinds), len(r.order))
	}
}

func TestTextFromOutsideIsQuotedAndCut(t *testing.T) {
	for in, want := range map[string]string{
		"plain":         "plain",
		"":              `""`,
		"two words":     `"two words"`,
		"a=b":           `"a=b"`,
		"a\nb\x1b":      `"a\nb\x1b"`,
		"0123456789abc": "0123456789...",
		"\xff":          `"\xff"`,
	} {
		if got := printable(in, 10); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}
