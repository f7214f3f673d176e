package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestARotatedLogHasEachEventOnce(t *testing.T) {
	lines := [][]byte{[]byte(`{"auditID":"11111111-1"}`), []byte(`{"auditID":"22222222-2"}`)}
	for _, c := range []struct {
		every   time.Duration
		rotated bool
	}{{0, false}, {100 * time.Millisecond, true}} {
		dir := t.TempDir()
		written, err := writeRotated(dir, lines, 600*time.Millisecond, c.every)
		if err != nil || written != 1200 {
			t.Fatalf("%d events, %v; want 1200", written, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "audit*.log"))
		if err != nil || len(files) > 1 != c.rotated {
			t.Errorf("every %s: files %v, %v", c.every, files, err)
		}
		seen := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				seen[string(line)] = true
			}
		}
		if len(seen) != written {
			t.Errorf("%d different lines of %d", len(seen), written)
		}
	}
}

func TestWhatRotationCostsStandsBesideNone(t *testing.T) {
	got := rotationRow(rotated{cpu: 2, stored: 100, written: 9, got: 9}, rotated{cpu: 3, stored: 180, written: 9, got: 12}, time.Minute)
	want := row{
		scenario: "a rotation every 1m beside none, 2000 events a second for 3m: CPU of the whole process, bytes into storage", form: "raw",
		peer: "k8saudit, none: 2.00 s, 100 MB stored", plugin: "3.00 s, 180 MB stored, **12 events arrived for 9**", ratio: "1.50, stored 1.80",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
