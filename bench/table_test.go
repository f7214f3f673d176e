package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATargetSaysWhetherItIsMet(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{atMost(0.33, 0.33), "≤ 0.33, met"},
		{atMost(0.34, 0.33), "≤ 0.33, **missed**"},
		{atLeast(3, 3), "≥ 3, met"},
		{atLeast(2.9, 3), "≥ 3, **missed**"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestWhatStandsAroundTheTableStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	before, after := "# Performance\n\n", ""
	for _, text := range []string{"first\n", "second\n"} {
		if err := writeBetween(file, text); err != nil {
			t.Fatal(err)
		}
		want := before + tableBegin + text + tableEnd + after
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		before, after = "# Figures\n", "prose\n"
		if err := os.WriteFile(file, []byte(before+tableBegin+text+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const prose = "no markers\n"
	if err := os.WriteFile(file, []byte(prose), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeBetween(file, "third\n"); err == nil {
		t.Error("a file without markers was written")
	}
	if got, _ := os.ReadFile(file); string(got) != prose {
		t.Errorf("a file without markers became %q", got)
	}
}
