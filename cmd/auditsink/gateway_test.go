package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestABodyTakesItsTimeUntilTheGatewayGivesUp(t *testing.T) {
	const event, patience = 20 * time.Millisecond, 50 * time.Millisecond
	a, b, c := line("a", "Panic"), line("b", "Panic"), line("c", "Panic")
	store := filepath.Join(t.TempDir(), "store")
	s := start(t, "-store", store, "-delay-event", event.String(), "-give-up", patience.String())
	for _, tt := range []struct {
		body   string
		status int
		takes  time.Duration
	}{
		{list(a), 200, event},
		{list(a, b, c), 504, patience},
		{list(b, c), 200, 2 * event},
	} {
		begin := time.Now()
		mustPost(t, s, tt.status, tt.body)
		if took := time.Since(begin); took < tt.takes {
			t.Errorf("%s: answered after %v, want at least %v", tt.body, took, tt.takes)
		}
	}
	if out, _ := s.end(); !strings.Contains(out, "answers: 200=2 504=1\nbatches: 2\nevents: 3\nduplicates: 0\nbad: 0\n") {
		t.Errorf("stdout:\n%s", out)
	}
	stored, _ := os.ReadFile(store)
	want(t, "store", string(stored), strings.Join([]string{a, b, c}, "\n")+"\n")
}

func TestNothingIsStoredForASenderThatLeaves(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	requests := filepath.Join(t.TempDir(), "requests")
	s := start(t, "-store", store, "-requests", requests, "-delay-event", "1h")
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(list(line("a", "Panic"))))
	req.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		if err == nil {
			resp.Body.Close()
		}
		t.Fatalf("%v, want no answer", err)
	}
	for end := time.Now().Add(10 * time.Second); len(requestsIn(t, requests)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the request goes on without its sender")
		}
	}
	if out, _ := s.end(); !strings.Contains(out, "answers: broken=1\nbatches: 0\n") {
		t.Errorf("stdout:\n%s", out)
	}
	if b, _ := os.ReadFile(store); len(b) > 0 {
		t.Errorf("stored: %q", b)
	}
}

func TestASlowBodyEndsWithTheSink(t *testing.T) {
	requests := filepath.Join(t.TempDir(), "requests")
	s := start(t, "-requests", requests, "-delay-event", "1h")
	answered := make(chan error, 1)
	go func() {
		_, err := post(t, s.url, list(line("a", "Panic")))
		answered <- err
	}()
	time.Sleep(50 * time.Millisecond) // it is under way; if not, it is not answered either
	out, _ := s.end()
	if err := <-answered; err == nil {
		t.Error("it was answered")
	} else if errors.Is(err, syscall.ECONNRESET) && !strings.Contains(out, "answers: cut=1\nbatches: 0\n") {
		t.Errorf("stdout:\n%s", out)
	}
}
