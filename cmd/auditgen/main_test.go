// Tests of the whole command: what it writes, prints and returns.

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fixed makes runs comparable byte by byte.
var fixed = []string{"-seed", "7", "-start", "2026-11-30T10:00:00Z"}

// generated runs the command to its end with -out in a directory of its own, and gives
// the file's name and the last line on stderr.
func generated(t *testing.T, args ...string) (name, summary string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "audit.log")
	return name, generateInto(t, name, args...)
}

func generateInto(t *testing.T, name string, args ...string) (summary string) {
	t.Helper()
	var stderr strings.Builder
	if status := run(t.Context(), append([]string{"-out", name}, args...), nil, &stderr); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr.String())
	}
	return strings.TrimSuffix(stderr.String(), "\n")
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSameSeedAndStartGiveTheSameBytes(t *testing.T) {
	args := append([]string{"-count", "3000", "-large-every", "500", "-large-size", "9k"}, fixed...)
	one, _ := generated(t, args...)
	two, _ := generated(t, args...)
	if !bytes.Equal(read(t, one), read(t, two)) {
		t.Error("two runs differ")
	}
	other, _ := generated(t, append(args, "-seed", "8")...)
	if bytes.Equal(read(t, one), read(t, other)) {
		t.Error("another seed gives the same bytes")
	}
	first, _ := generated(t, "-count", "1", "-start", "2026-11-30T10:00:00Z")
	second, _ := generated(t, "-count", "1", "-start", "2026-11-30T10:00:00Z")
	if bytes.Equal(read(t, first), read(t, second)) {
		t.Error("without -seed two runs are the same")
	}
}

func TestTimesFollowTheStartAtTheRate(t *testing.T) {
	name, _ := generated(t, "-count", "5", "-rate", "400", "-start", "2026-11-30T10:00:00+01:00")
	var got []string
	for _, m := range regexp.MustCompile(`"stageTimestamp":"([^"]+)"`).FindAllSubmatch(read(t, name), -1) {
		got = append(got, string(m[1]))
	}
	want := "2026-11-30T09:00:00.000000Z 2026-11-30T09:00:00.002500Z 2026-11-30T09:00:00.005000Z 2026-11-30T09:00:00.007500Z 2026-11-30T09:00:00.010000Z"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestCountIsExactAcrossRotations(t *testing.T) {
	name, summary := generated(t, append(fixed, "-count", "5000", "-max-size", "200k", "-large-every", "700", "-large-size", "300k")...)
	whole, _ := generated(t, append(fixed, "-count", "5000", "-large-every", "700", "-large-size", "300k")...)
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "audit-*.log"))
	var all []byte
	for _, f := range append(files, name) {
		b := read(t, f)
		if len(b) == 0 || b[len(b)-1] != '\n' {
			t.Errorf("%s does not end at a line end", filepath.Base(f))
		}
		if len(b) > 200_000 && bytes.Count(b, []byte("\n")) != 1 {
			t.Errorf("%s has %d bytes", filepath.Base(f), len(b))
		}
		all = append(all, b...)
	}
	if !bytes.Equal(all, read(t, whole)) {
		t.Error("the files one behind the other, in the order of their names, are not the file without rotation")
	}
	if lines := bytes.Count(all, []byte("\n")); lines != 5000 {
		t.Errorf("%d lines", lines)
	}
	want := regexp.MustCompile(fmt.Sprintf(`^auditgen: wrote 5000 events \(%d bytes\) in [0-9.mµ]*s, %d rotations$`, len(all), len(files)))
	if !want.MatchString(summary) {
		t.Errorf("stderr: %s\nwant: %s", summary, want)
	}
}

func TestAReaderSeesEachEventAsSoonAsItIsDue(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			run(ctx, []string{"-out", name, "-rate", "10"}, nil, io.Discard)
			close(done)
		}()
		time.Sleep(time.Millisecond)
		for want := range 30 {
			b := read(t, name)
			if lines := bytes.Count(b, []byte("\n")); lines != want || !bytes.HasSuffix(b, []byte("\n")) && want > 0 {
				t.Errorf("%d lines in the file, want %d", lines, want)
			}
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		<-done
	})
}

func TestLingerStaysAliveAfterTheLastEvent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		stop  time.Duration // 0: never
		after time.Duration
		lines int
	}{
		{"count reached", []string{"-count", "50", "-rate", "100"}, 0, 3500 * time.Millisecond, 50},
		{"stopped", []string{"-rate", "100"}, 2 * time.Second, 5 * time.Second, 200},
		{"stopped while it lingers", []string{"-count", "50", "-rate", "100"}, 2 * time.Second, 3500 * time.Millisecond, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "audit.log")
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.stop > 0 {
					// Just behind the events of that moment.
					c, cancel := context.WithTimeout(ctx, tt.stop+time.Microsecond)
					defer cancel()
					ctx = c
				}
				begin, stderr := time.Now(), &strings.Builder{}
				status := run(ctx, append(tt.args, "-out", name, "-linger", "3s"), nil, stderr)
				if took := time.Since(begin).Truncate(time.Millisecond); status != 0 || took != tt.after {
					t.Errorf("exit status %d after %v, want 0 after %v; stderr: %s", status, took, tt.after, stderr)
				}
			})
			if lines := bytes.Count(read(t, name), []byte("\n")); lines != tt.lines {
				t.Errorf("%d lines, want %d", lines, tt.lines)
			}
		})
	}
}

func TestAFailingWriteIsExitStatus1AndNamesTheFile(t *testing.T) {
	for _, tt := range []struct{ out, want string }{
		{"/dev/full", "auditgen: write /dev/full: no space left on device\nauditgen: wrote 0 events (0 bytes) in 0s, 0 rotations\n"},
		{"/dev/null/x", "auditgen: -out: open /dev/null/x: not a directory\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, stderr := time.Now(), &strings.Builder{}
			status := run(t.Context(), []string{"-out", tt.out, "-count", "3", "-linger", "1h"}, nil, stderr)
			if status != 1 || stderr.String() != tt.want {
				t.Errorf("exit status %d, stderr: %s\nwant: %s", status, stderr, tt.want)
			}
			if time.Since(begin) != 0 {
				t.Error("lingered, with nothing to wait for")
			}
		})
	}
}

func TestStdoutIsTheDefault(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stdout")
	stdout, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	if status := run(t.Context(), append(fixed, "-count", "100"), stdout, &stderr); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr.String())
	}
	want, _ := generated(t, append(fixed, "-count", "100")...)
	if !bytes.Equal(read(t, name), read(t, want)) {
		t.Error("stdout is not what -out gives")
	}
}

func TestASecondRunContinuesTheFile(t *testing.T) {
	name, _ := generated(t, append(fixed, "-count", "10")...)
	first := read(t, name)
	generateInto(t, name, append(fixed, "-count", "10", "-seed", "8")...)
	both := read(t, name)
	if !bytes.HasPrefix(both, first) || bytes.Count(both, []byte("\n")) != 20 {
		t.Errorf("%d lines", bytes.Count(both, []byte("\n")))
	}
}

func TestWrongUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"x", `auditgen: argument "x": only flags are taken`},
		{"-level metadata", `auditgen: -level "metadata": give one of Metadata, Request, RequestResponse, mix`},
		{"-rate 1000000001", "auditgen: -rate 1000000001: give at most 1000000000"},
		{"-rate -1", "auditgen: -rate, -count, -max-backups, -large-every, -linger: give no negative value"},
		{"-linger -1s", "auditgen: -rate, -count, -max-backups, -large-every, -linger: give no negative value"},
		{"-max-size 1M", "auditgen: -max-size, -max-backups: need -out with a file"},
		{"-out f -max-backups 1", "auditgen: -max-backups needs -max-size"},
		{"-level Metadata -large-every 1", "auditgen: -large-every: an event of level Metadata has no object that could be large"},
		{"-large-every 1 -large-size 7999", "auditgen: -large-size 7999: give at least 8000"},
		{"-max-size 1.5M", "auditgen: see the usage above"},
		{"-seed 12abc", "auditgen: see the usage above"},
		{"-start 2026-11-30", "auditgen: see the usage above"},
	} {
		var stderr strings.Builder
		status := run(t.Context(), strings.Fields(tt.args), nil, &stderr)
		all := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
		if got := all[len(all)-1]; status != 2 || got != tt.want {
			t.Errorf("%s: exit status %d, %s, want %s", tt.args, status, got, tt.want)
		}
	}
	var stderr strings.Builder
	if status := run(t.Context(), []string{"-h"}, nil, &stderr); status != 0 || !strings.Contains(stderr.String(), "-large-every") {
		t.Errorf("-h: exit status %d, %s", status, stderr.String())
	}
}
