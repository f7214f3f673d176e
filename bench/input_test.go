package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryEventHasAnAuditIDOfItsOwn(t *testing.T) {
	log := [][]byte{
		[]byte(`{"auditID":"11111111-2222-3333-4444-555555555555","stage":"Panic"}`),
		[]byte(`{"auditID":"short","stage":"Panic"}`),
	}
	want := []string{
		`{"auditID":"00000000-2222-3333-4444-555555555555","stage":"Panic"}`,
		`{"auditID":"00001","stage":"Panic"}`,
		`{"auditID":"00000002-2222-3333-4444-555555555555","stage":"Panic"}`,
	}
	for i, line := range events(log, len(want)) {
		if string(line) != want[i] {
			t.Errorf("event %d is %s, want %s", i, line, want[i])
		}
	}
}

func TestALargeEventIsStillJSON(t *testing.T) {
	line := large([]byte(`{"auditID":"a"}`), 800_000)
	if len(line) < 800_000 || len(line) > 800_100 || !json.Valid(line) {
		t.Errorf("%d bytes, valid: %v", len(line), json.Valid(line))
	}
}

func TestSmallChunksAreFilesOfTenLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tens")
	in, err := writeSmallChunks(dir, events([][]byte{[]byte(`{"auditID":"11111111-"}`)}, 25))
	if err != nil || in.events != 20 || in.chunks != 2 {
		t.Fatalf("%+v, %v; want 20 events and 2 chunks", in, err)
	}
	files, err := filepath.Glob(in.path)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v; want 2 files", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if n := strings.Count(string(text), "\n"); err != nil || n != 10 {
			t.Errorf("%s has %d lines, %v; want 10", file, n, err)
		}
	}
}
