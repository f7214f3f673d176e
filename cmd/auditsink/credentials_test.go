// Tests of who may post.

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// postAs posts one event with an Authorization header.
func postAs(t *testing.T, s *sink, authorization string) *http.Response {
	t.Helper()
	// Larger than what a server reads of a body by itself before it closes.
	body := strings.Replace(list(line("a", "Panic")), `"metadata"`, `"x":"`+strings.Repeat("x", 1<<20)+`","metadata"`, 1)
	req, _ := http.NewRequest(http.MethodPost, s.url, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

func secretFile(t *testing.T, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestOnlyTheCredentialsInTheFileAreLetIn(t *testing.T) {
	const basic = "Basic YXVkaXQ6b3BlbjpzZXNhbWU=" // audit:open:sesame
	for _, tt := range []struct {
		name, flag, secret string
		in                 string
		out                []string
		challenge          string
	}{
		{"token", "-bearer-token-file", "t0ken\n", "Bearer t0ken",
			[]string{"", "Bearer", "Bearer ", "Bearer t0ke", "Bearer t0kenn", "Bearer T0KEN", "t0ken", "Basic t0ken", basic}, "Bearer"},
		{"the scheme in another case", "-bearer-token-file", "t0ken", "bearer t0ken", []string{"bearer"}, "Bearer"},
		{"password", "-basic-auth-file", "audit:open:sesame\n", basic,
			[]string{"", "Basic", "Basic YXVkaXQ6", "Basic YXVkaXQ6b3BlbjpzZXNhbWV4", "Bearer audit:open:sesame", "Basic audit:open:sesame"}, `Basic realm="audit"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			s := start(t, tt.flag, secretFile(t, tt.secret), "-store", store)
			for _, out := range tt.out {
				if resp := postAs(t, s, out); resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != tt.challenge {
					t.Errorf("%q: status %d, challenge %q", out, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
				}
			}
			if b, _ := os.ReadFile(store); len(b) > 0 {
				t.Errorf("stored without the credentials: %q", b)
			}
			if resp := postAs(t, s, tt.in); resp.StatusCode != 200 || resp.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%q: status %d", tt.in, resp.StatusCode)
			}
			out, _ := s.end()
			answers := "answers: 200=1 401=" + string(rune('0'+len(tt.out))) + "\nbatches: 1\nevents: 1\nduplicates: 0\nbad: 0\n"
			if !strings.Contains(out, answers) {
				t.Errorf("stdout:\n%s\nwant:\n%s", out, answers)
			}
		})
	}
}

func TestTheFileIsReadForEachRequest(t *testing.T) {
	file := secretFile(t, "first")
	s := start(t, "-bearer-token-file", file)
	for _, step := range []struct {
		secret string // written before the request; "": the file is removed
		token  string
		status int
	}{
		{"first", "first", 200},
		{"second", "first", 401},
		{"second", "second", 200},
		{"\n", "", 500},
		{"", "second", 500},
		{"third", "third", 200},
	} {
		if err := os.WriteFile(file, []byte(step.secret), 0o600); err != nil {
			t.Fatal(err)
		}
		if step.secret == "" {
			_ = os.Remove(file)
		}
		if resp := postAs(t, s, "Bearer "+step.token); resp.StatusCode != step.status {
			t.Errorf("%+v: status %d", step, resp.StatusCode)
		}
	}
	if out, _ := s.end(); !strings.Contains(out, "answers: 200=3 401=1 500=2\nbatches: 3\n") {
		t.Errorf("stdout:\n%s", out)
	}
}

func TestAFileWithoutCredentialsStopsTheStart(t *testing.T) {
	missing, empty := filepath.Join(t.TempDir(), "missing"), secretFile(t, "\n")
	user := secretFile(t, "audit")
	for _, tt := range []struct{ flag, file, want string }{
		{"-bearer-token-file", missing, "-bearer-token-file: open " + missing + ": no such file or directory"},
		{"-bearer-token-file", empty, `-bearer-token-file: "` + empty + `" is empty`},
		{"-basic-auth-file", empty, `-basic-auth-file: "` + empty + `" is empty`},
		{"-basic-auth-file", user, `-basic-auth-file: "` + user + `" does not hold user:password`},
	} {
		var stderr strings.Builder
		status := run(t.Context(), []string{"-listen", "nowhere:x", tt.flag, tt.file}, io.Discard, &stderr)
		if status != 1 || stderr.String() != "auditsink: "+tt.want+"\n" {
			t.Errorf("%s: status %d, stderr %q", tt.flag, status, &stderr)
		}
	}
}
