// Tests of the whole command: what it answers, stores and prints.

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// sink is a run of the command.
type sink struct {
	url    string
	stop   func()
	done   chan struct{}
	status int
	out    bytes.Buffer
	errs   strings.Builder // stderr after its first line, to be read when done
}

// start runs the command with args until stop or the end of the test.
func start(t *testing.T, args ...string) *sink {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &sink{stop: stop, done: make(chan struct{})}
	r, w := io.Pipe()
	go func() {
		s.status = run(ctx, append([]string{"-listen", "127.0.0.1:0"}, args...), &s.out, w)
		w.Close()
	}()
	var line []byte
	for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("stderr ended: %q", line)
		}
		line = append(line, b...)
	}
	go func() {
		_, _ = io.Copy(&s.errs, r)
		close(s.done)
	}()
	address, found := strings.CutPrefix(strings.TrimSpace(string(line)), "auditsink: listening on ")
	if !found {
		t.Fatalf("stderr: %q", line)
	}
	s.url = "http://" + address
	t.Cleanup(func() { s.end() })
	return s
}

// end stops the command and returns what it printed and its exit status.
func (s *sink) end() (string, int) {
	s.stop()
	<-s.done
	return s.out.String(), s.status
}

// post sends one body on a connection of its own and returns the status.
func post(t *testing.T, url, body string) (int, error) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// mustPost is post that must give the status.
func mustPost(t *testing.T, s *sink, status int, body string) {
	t.Helper()
	if got, err := post(t, s.url, body); got != status || err != nil {
		t.Errorf("status %d, %v, want %d", got, err, status)
	}
}

func list(events ...string) string {
	return `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + strings.Join(events, ",") + `]}`
}

// line is an event as the log has it.
func line(id, stage string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"` + id + `","stage":"` + stage + `","n":1.0}`
}

func logFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func TestWholeRun(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	a, b, c := line("a", "ResponseComplete"), line("b", "ResponseComplete"), line("c", "Panic")
	log := logFile(t, a, b, "", c, c)
	s := start(t, "-store", store, "-verify", log, "-fail-every", "3")
	mustPost(t, s, 200, list(a))
	mustPost(t, s, 200, list(b, c))
	mustPost(t, s, 503, list(c))
	mustPost(t, s, 200, list(c))
	mustPost(t, s, 400, list())
	out, status := s.end()
	bodies := len(list(a)) + len(list(b, c)) + 2*len(list(c)) + len(list())
	want(t, "stdout", out, fmt.Sprintf(`requests: 5
answers: 200=3 400=1 503=1
batches: 3
events: 4
duplicates: 1
bad: 1
gzip: 0
http2: 0
connections: 5
bytes: %d
largest body: %d
verdict: events in 4, events out 4, batches 3, lost 0, duplicated 0, altered 0
`, bodies, len(list(b, c))))
	if status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	stored, _ := os.ReadFile(store)
	want(t, "store", string(stored), strings.Join([]string{a, b, c, c}, "\n")+"\n")
}

func TestQuietPrintsOnlyTheVerdict(t *testing.T) {
	log := logFile(t, line("a", "Panic"))
	out, status := start(t, "-quiet", "-verify", log).end()
	want(t, "stdout", out, "verdict: events in 1, events out 0, batches 0, lost 1, duplicated 0, altered 0\n"+
		"lost: \"a\" Panic ("+log+":1)\n")
	if status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
}

func TestItemsAreStoredByteForByte(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	s := start(t, "-store", store)
	items := []string{
		`{"auditID":"1","stage":"s","n":[1.0, 1e2,-0.0,18446744073709551615],"u":"é\u00e9\/<>& "}`,
		`{ "stage" : "s" , "auditID":"2","o":{ },"a":[ ] }`,
		"{\n\t\"auditID\":\r\n\"3\",\"stage\":\"s\\n\"}",
	}
	mustPost(t, s, 200, "  "+strings.ReplaceAll(list(items...), ",", " ,\n ")+"\n")
	mustPost(t, s, 200, list(items...))
	s.end()
	stored, _ := os.ReadFile(store)
	_, second, _ := strings.Cut(string(stored), "s\\n\"}\n")
	items[2] = `{ 	"auditID":  "3","stage":"s\n"}` // raw line breaks are spaces
	want(t, "store", second, strings.Join(items, "\n")+"\n")
	if n := strings.Count(string(stored), "\n"); n != 6 {
		t.Errorf("%d lines, want 6", n)
	}
}

func TestWhatIsNoEventListIsRefused(t *testing.T) {
	s := start(t)
	event := line("a", "Panic")
	for _, body := range []string{
		``, `x`, `[]`, `null`, `{}`,
		list(), list("1"), list("null"), list("{}"), list(`{"auditID":"a"}`), list(`{"auditID":1,"stage":"s"}`),
		list(event) + "x",
		list(event, `{"auditID":"b"}`),
		strings.Replace(list(event), "EventList", "Event", 1),
		strings.Replace(list(event), "audit.k8s.io/v1", "audit.k8s.io/v1beta1", 1),
		strings.Replace(list(event), "items", "Items", 1),
		strings.Replace(list(event), `[`, `{"a":[`, 1) + "}",
		strings.Replace(list(event), "Panic", "Pan\xffic", 1),
		event, "[" + event + "]",
	} {
		mustPost(t, s, 400, body)
	}
	for _, tt := range []struct {
		method, contentType, encoding string
		status                        int
	}{
		{"GET", "", "", 405},
		{"PUT", "application/json", "", 405},
		{"POST", "", "", 415},
		{"POST", "text/plain", "", 415},
		{"POST", "application/json", "br", 415},
		{"POST", "application/json; charset=utf-8", "identity", 200},
	} {
		req, _ := http.NewRequest(tt.method, s.url, strings.NewReader(list(event)))
		req.Header.Set("Content-Type", tt.contentType)
		req.Header.Set("Content-Encoding", tt.encoding)
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%+v: status %d", tt, resp.StatusCode)
		}
	}
	out, status := s.end()
	if !strings.Contains(out, "answers: 200=1 400=20 405=2 415=3\nbatches: 1\nevents: 1\nduplicates: 0\nbad: 25\n") || status != 0 {
		t.Errorf("status %d, stdout:\n%s", status, out)
	}
}

func TestRestartContinuesTheStore(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	a, b := line("a", "Panic"), line("b", "Panic")
	log := logFile(t, a, b)
	s := start(t, "-store", store)
	mustPost(t, s, 200, list(a))
	s.end()
	f, err := os.OpenFile(store, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(strings.Repeat(" ", 1000) + b[:20]) // killed while writing: never answered
	f.Close()
	s = start(t, "-store", store, "-verify", log, "-quiet")
	mustPost(t, s, 200, list(b))
	out, status := s.end()
	want(t, "stdout", out, "verdict: events in 2, events out 2, batches 1, lost 0, duplicated 0, altered 0\n")
	if status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	stored, _ := os.ReadFile(store)
	want(t, "store", string(stored), a+"\n"+b+"\n")
}

func TestGzippedAndSeveralLogs(t *testing.T) {
	a, b := line("a", "Panic"), line("b", "Panic")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, a) // no line break at the end
	w.Close()
	name := filepath.Join(t.TempDir(), "rotated.log.gz")
	if err := os.WriteFile(name, z.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "-verify", name+","+logFile(t, b), "-quiet")
	mustPost(t, s, 200, list(b, a))
	out, _ := s.end()
	want(t, "stdout", out, "verdict: events in 2, events out 2, batches 1, lost 0, duplicated 0, altered 0\n")
}

func TestARotatedLogIsNamedByAPattern(t *testing.T) {
	dir := t.TempDir()
	a, b, c := line("a", "Panic"), line("b", "Panic"), line("c", "Panic")
	for name, text := range map[string]string{"audit-1.log": a, "audit.log": b, "a[x].log": c, "other.log": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, "-verify", filepath.Join(dir, "audit*.log")+","+filepath.Join(dir, "audit.log")+","+filepath.Join(dir, "a[x].log"), "-quiet")
	mustPost(t, s, 200, list(a, b, c))
	out, _ := s.end()
	want(t, "stdout", out, "verdict: events in 3, events out 3, batches 1, lost 0, duplicated 0, altered 0\n")
}

func TestStopAfterEventsAnswersFirst(t *testing.T) {
	s := start(t, "-stop-after-events", "3")
	mustPost(t, s, 200, list(line("a", "Panic"), line("b", "Panic")))
	mustPost(t, s, 200, list(line("c", "Panic")))
	<-s.done // without stop
	if s.status != 0 || !strings.Contains(s.out.String(), "events: 3\n") {
		t.Errorf("status %d, stdout:\n%s", s.status, &s.out)
	}
}

func TestFaults(t *testing.T) {
	event := list(line("a", "Panic"))
	poison := list(line("poison", "Panic"))
	for _, tt := range []struct {
		name    string
		args    []string
		bodies  []string
		want    string // a status a body, "cut" for a reset
		answers string
		events  int
	}{
		{"first", []string{"-fail-first", "2"}, []string{event, event, event}, "503 503 200", "200=1 503=2", 1},
		{"every", []string{"-fail-every", "2", "-fail-status", "429"}, []string{event, event, event, event}, "200 429 200 429", "200=2 429=2", 2},
		{"always", []string{"-fail-status", "500"}, []string{event, event}, "500 500", "500=2", 0},
		{"stored all the same", []string{"-fail-first", "1", "-store-on-fail"}, []string{event, event}, "503 200", "200=1 503=1", 2},
		{"match", []string{"-fail-match", `"poison"`}, []string{event, poison, event}, "200 400 200", "200=2 400=1", 2},
		{"match with a status", []string{"-fail-match", "poison", "-fail-status", "422"}, []string{poison, event}, "422 200", "200=1 422=1", 1},
		{"cut before", []string{"-fail-first", "1", "-fail-status", "cut-before"}, []string{event, event}, "cut 200", "200=1 cut=1", 1},
		{"cut after", []string{"-fail-first", "1", "-fail-status", "cut-after"}, []string{event, event}, "cut 200", "200=1 cut=1", 1},
		{"cut, but stored", []string{"-fail-first", "1", "-fail-status", "cut-after", "-store-on-fail"}, []string{event, event}, "cut 200", "200=1 cut=1", 2},
		{"several ways", []string{"-fail-every", "2", "-fail-also", "3:cut-after", "-fail-also", "6:501", "-fail-also", "5:500"},
			[]string{event, event, event, event, event, event, event}, "200 503 cut 503 500 503 200", "200=2 500=1 503=3 cut=1", 2},
		{"by number before by size", []string{"-fail-every", "2", "-max-body", "10"}, []string{event, event}, "413 503", "413=1 503=1", 0},
		{"stored by number, but for its size", []string{"-fail-every", "2", "-max-body", "10", "-store-on-fail"}, []string{event, event}, "413 413", "413=2", 0},
		{"window", []string{"-fail-for", "1h"}, []string{event}, "503", "503=1", 0},
		{"window later", []string{"-fail-from", "1h"}, []string{event}, "200", "200=1", 1},
		{"too large", []string{"-max-body", fmt.Sprint(len(event))}, []string{event, poison}, "200 413", "200=1 413=1", 1},
		{"too large with a status", []string{"-max-body", "10", "-max-body-status", "400"}, []string{event}, "400", "400=1", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.args...)
			var got []string
			for _, b := range tt.bodies {
				status, err := post(t, s.url, b)
				switch {
				case errors.Is(err, syscall.ECONNRESET):
					got = append(got, "cut")
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, fmt.Sprint(status))
				}
			}
			want(t, "answers", strings.Join(got, " "), tt.want)
			out, _ := s.end()
			if !strings.Contains(out, "answers: "+tt.answers+"\n") || !strings.Contains(out, fmt.Sprintf("events: %d\n", tt.events)) {
				t.Errorf("stdout:\n%s", out)
			}
		})
	}
}

func TestAnotherWayToFailNeedsANumberAndAWay(t *testing.T) {
	for value, want := range map[string]string{
		"500": "give N:HOW, with N at least 1", "0:500": "give N:HOW, with N at least 1", "x:500": "give N:HOW, with N at least 1",
		"5:": `HOW "": give a status from 300 to 599, cut-before, cut-after, hang or drip`, "5:200": `HOW "200": give a status from 300 to 599, cut-before, cut-after, hang or drip`,
		"5:hang": "<nil>",
	} {
		var f faults
		if got := fmt.Sprint(f.addAlso(value)); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestRetryAfterOfFailures(t *testing.T) {
	s := start(t, "-fail-first", "1", "-fail-status", "429", "-retry-after", "7")
	for i, want := range []string{"7", ""} {
		resp, err := http.Post(s.url, "application/json", strings.NewReader(list(line("a", "Panic"))))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Retry-After"); got != want {
			t.Errorf("answer %d: Retry-After %q, want %q", i+1, got, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestHangingRequestEndsWithTheSink(t *testing.T) {
	s := start(t, "-fail-status", "hang", "-store-on-fail", "-stop-after-events", "1")
	if status, err := post(t, s.url, list(line("a", "Panic"))); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("status %d, %v, want a reset", status, err)
	}
	<-s.done
	if out := s.out.String(); !strings.Contains(out, "requests: 1\nanswers: hang=1\nbatches: 1\n") {
		t.Errorf("stdout:\n%s", out)
	}
}

func TestADrippingAnswerHasNoEnd(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	s := start(t, "-fail-status", "drip", "-store", store)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := list(line("a", "Panic"))
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	want(t, "answer", string(got), "HTT")
	out, _ := s.end() // does not wait for the answer's end
	if !strings.Contains(out, "requests: 1\nanswers: drip=1\nbatches: 0\n") {
		t.Errorf("stdout:\n%s", out)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || strings.Contains(string(rest), "\n") {
		t.Errorf("then %q, %v, want the connection closed within the answer", rest, err)
	}
}

func TestDiscard(t *testing.T) {
	s := start(t, "-discard")
	mustPost(t, s, 200, "not even JSON")
	out, status := s.end()
	want(t, "stdout", out, "requests: 1\nanswers: 200=1\nbad: 0\ngzip: 0\nhttp2: 0\nconnections: 1\nbytes: 13\nlargest body: 13\n")
	if status != 0 {
		t.Errorf("exit status %d", status)
	}
}

func TestConcurrentBatchesAreAllStored(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	var lines []string
	for i := range 200 {
		lines = append(lines, line(fmt.Sprint(i), "Panic"))
	}
	s := start(t, "-store", store, "-verify", logFile(t, lines...), "-quiet")
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			for j := i; j < len(lines); j += 8 {
				mustPost(t, s, 200, list(lines[j]))
			}
		})
	}
	senders.Wait()
	out, _ := s.end()
	want(t, "stdout", out, "verdict: events in 200, events out 200, batches 200, lost 0, duplicated 0, altered 0\n")
	stored, _ := os.ReadFile(store)
	if n := strings.Count(string(stored), "\n"); n != 200 {
		t.Errorf("%d lines stored, want 200", n)
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"x"}, `argument "x": only flags are taken`},
		{[]string{"-fail-status", "200"}, `-fail-status "200": give a status from 300 to 599, cut-before, cut-after, hang or drip`},
		{[]string{"-fail-first", "-1"}, "-fail-first, -fail-every, -fail-from, -fail-for: give no negative value"},
		{[]string{"-tls-cert", "c"}, "-tls-cert and -tls-key: give both or neither"},
		{[]string{"-client-ca", "c"}, "-client-ca needs -tls-cert and -tls-key"},
		{[]string{"-bearer-token-file", "t", "-basic-auth-file", "b"}, "-bearer-token-file and -basic-auth-file: a request has one Authorization header; give one of the two"},
		{[]string{"-absent", "stageTimestamp"}, "-absent needs -semantic: bytes cannot be compared without a field"},
		{[]string{"-discard", "-verify", "l"}, "-discard looks at no event: it goes with none of -store, -store-on-fail, -verify, -stop-after-events, -delay-event"},
		{[]string{"-discard", "-delay-event", "1ms"}, "-discard looks at no event: it goes with none of -store, -store-on-fail, -verify, -stop-after-events, -delay-event"},
		{[]string{"-delay-event", "-1ms"}, "-delay, -stop-after-events, -delay-event, -give-up: give no negative value"},
		{[]string{"-give-up", "1s"}, "-give-up needs -delay-event: without it no body takes long"},
		{[]string{"-store-on-fail", "-fail-also", "5:cut-before"}, "-store-on-fail: with cut-before there is no body to store"},
		{[]string{"-store-on-fail", "-fail-status", "cut-before"}, "-store-on-fail: with cut-before there is no body to store"},
		{[]string{"-max-body", "0"}, "-max-body 0: give at least 1"},
		{[]string{"-max-body-status", "200"}, "-max-body-status 200: give a status from 300 to 599"},
	} {
		var stderr strings.Builder
		status := run(t.Context(), append([]string{"-listen", "nowhere:x"}, tt.args...), io.Discard, &stderr)
		if status != 2 || stderr.String() != "auditsink: "+tt.want+"\n" {
			t.Errorf("%q: status %d, stderr %q", tt.args, status, &stderr)
		}
	}
}

func TestLogThatCannotBeReadIsAFailure(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing*.log")
	for _, tt := range []struct{ name, want string }{
		{missing, missing + ": there is no such file"},
		{"[", "[: syntax error in pattern"},
		{t.TempDir(), "is a directory"},
	} {
		s := start(t, "-verify", tt.name)
		if _, status := s.end(); status != 1 || !strings.HasPrefix(s.errs.String(), "auditsink: -verify: ") || !strings.HasSuffix(s.errs.String(), tt.want+"\n") {
			t.Errorf("status %d, stderr %q, want %q", status, &s.errs, tt.want)
		}
	}
}
