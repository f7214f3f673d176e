// Tests of the events themselves.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 30, 10, 0, 0, 123456789, time.FixedZone("", 3600))

// lines makes n events, a millisecond apart.
func lines(g *generator, n int) (all [][]byte) {
	for i := range n {
		all = append(all, g.append(nil, start.Add(time.Duration(i)*time.Millisecond)))
	}
	return all
}

// user is authentication/v1's UserInfo.
type user struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// event has the fields of audit/v1's Event in their order.
type event struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Level      string   `json:"level"`
	AuditID    string   `json:"auditID"`
	Stage      string   `json:"stage"`
	RequestURI string   `json:"requestURI"`
	Verb       string   `json:"verb"`
	User       user     `json:"user"`
	SourceIPs  []string `json:"sourceIPs,omitempty"`
	UserAgent  string   `json:"userAgent,omitempty"`
	ObjectRef  *struct {
		Resource        string `json:"resource,omitempty"`
		Namespace       string `json:"namespace,omitempty"`
		Name            string `json:"name,omitempty"`
		UID             string `json:"uid,omitempty"`
		APIGroup        string `json:"apiGroup,omitempty"`
		APIVersion      string `json:"apiVersion,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
		Subresource     string `json:"subresource,omitempty"`
	} `json:"objectRef,omitempty"`
	ResponseStatus *struct {
		Metadata struct{} `json:"metadata"`
		Status   string   `json:"status,omitempty"`
		Message  string   `json:"message,omitempty"`
		Reason   string   `json:"reason,omitempty"`
		Details  *struct {
			Name  string `json:"name,omitempty"`
			Group string `json:"group,omitempty"`
			Kind  string `json:"kind,omitempty"`
		} `json:"details,omitempty"`
		Code int `json:"code,omitempty"`
	} `json:"responseStatus,omitempty"`
	RequestObject            json.RawMessage   `json:"requestObject,omitempty"`
	ResponseObject           json.RawMessage   `json:"responseObject,omitempty"`
	RequestReceivedTimestamp string            `json:"requestReceivedTimestamp"`
	StageTimestamp           string            `json:"stageTimestamp"`
	Annotations              map[string]string `json:"annotations,omitempty"`
}

// decode refuses fields that audit/v1 does not have, and lines that kube-apiserver's
// encoder would have written otherwise: in another order, with other escapes, with
// empty fields.
func decode(t *testing.T, line []byte) (e event) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than an event in a line: %s", line)
	}
	again, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if again = append(again, '\n'); !bytes.Equal(line, again) {
		t.Fatalf("got  %swant %s", line, again)
	}
	return e
}

var (
	uuid4     = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	microTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
)

func TestEveryEventIsOneOfKubeAPIServer(t *testing.T) {
	for _, chosen := range []string{metadata, requestLevel, requestResponse, mix} {
		t.Run(chosen, func(t *testing.T) {
			g := newGenerator(chosen, 1)
			g.largeEvery, g.largeSize = 1000, 20_001
			stages, levels, ids := map[string]int{}, map[string]int{}, map[string]string{}
			for i, line := range lines(g, 1500) {
				e := decode(t, line)
				stages[e.Stage]++
				levels[e.Level]++
				if e.Kind != "Event" || e.APIVersion != "audit.k8s.io/v1" || !uuid4.MatchString(e.AuditID) ||
					!strings.HasPrefix(e.RequestURI, "/") || e.Verb == "" || e.User.Username == "" || len(e.SourceIPs) != 1 ||
					e.UserAgent == "" || e.ResponseStatus == nil || e.ResponseStatus.Code == 0 || len(e.Annotations) < 2 {
					t.Fatalf("incomplete: %s", line)
				}
				at := start.UTC().Add(time.Duration(i) * time.Millisecond).Format("2006-01-02T15:04:05.000000Z")
				if e.StageTimestamp != at || !microTime.MatchString(e.RequestReceivedTimestamp) || e.RequestReceivedTimestamp >= at {
					t.Fatalf("received %s, stage %s, want %s", e.RequestReceivedTimestamp, e.StageTimestamp, at)
				}
				if started, known := ids[e.AuditID]; known && (e.Stage != responseComplete || started != e.RequestReceivedTimestamp) {
					t.Fatalf("a second event of auditID %s: %s", e.AuditID, line)
				} else if !known && e.Verb == "watch" && e.Stage == responseComplete {
					t.Fatalf("a watch ended that had not started: %s", line)
				} else {
					ids[e.AuditID] = e.RequestReceivedTimestamp
				}
				if e.Stage == panicked && e.ResponseObject != nil {
					t.Fatalf("a panic with a response: %s", line)
				}
				if e.Level == metadata && (e.RequestObject != nil || e.ResponseObject != nil) || e.Level == requestLevel && e.ResponseObject != nil {
					t.Fatalf("an object that level %s does not have: %s", e.Level, line)
				}
				if chosen == requestResponse && e.Stage == responseComplete && e.Verb == "update" && (e.RequestObject == nil || e.ResponseObject == nil) {
					t.Fatalf("an update without objects: %s", line)
				}
			}
			if chosen != mix && levels[chosen] != 1500 || chosen == mix && len(levels) != 3 {
				t.Errorf("levels %v", levels)
			}
			watches := stages[responseStarted]
			if pairs := 1500 - len(ids); watches < 15 || pairs > watches || pairs < watches-20 {
				t.Errorf("%d watches started, %d ended", watches, pairs)
			}
		})
	}
}

func TestAPanicIsRare(t *testing.T) {
	panics := 0
	for _, line := range lines(newGenerator(requestLevel, 4), 40_000) {
		if !bytes.Contains(line, []byte(`"stage":"Panic"`)) {
			continue
		}
		panics++
		if e := decode(t, line); e.RequestObject == nil && e.Verb == "update" || e.ResponseStatus.Code != 500 || e.ResponseStatus.Reason != "InternalError" {
			t.Errorf("%s", line)
		}
	}
	if panics < 2 || panics > 20 {
		t.Errorf("%d panics", panics)
	}
}

// Every call occurs, and what is rare too.
func TestMixOfRequests(t *testing.T) {
	all := bytes.Join(lines(newGenerator(requestResponse, 2), 10_000), nil)
	for _, text := range []string{
		`"username":"system:node:worker-`, `"username":"system:serviceaccount:`, `"username":"kubernetes-admin"`, `zoë`,
		`"verb":"get"`, `"verb":"list"`, `"verb":"watch"`, `"verb":"create"`, `"verb":"update"`, `"verb":"patch"`, `"verb":"delete"`, `"verb":"deletecollection"`,
		`"code":101}`, `"code":200}`, `"code":201}`, `"code":304}`, `"code":403}`, `"code":404}`, `"code":409}`, `"code":500}`,
		`"authorization.k8s.io/decision":"forbid"`, `"pod-security.kubernetes.io/audit-violations":`, `"k8s.io/deprecated":"true"`,
		`"creationTimestamp":null`, `"managedFields":[`, `"list":[]`, `"obj":{}`, `1.5e-7`, `9007199254740993`, `\u003c`, `\u2028`, `😀`,
	} {
		if !bytes.Contains(all, []byte(text)) {
			t.Errorf("no %s", text)
		}
	}
}

func TestLargeEventsHaveTheSizeAskedFor(t *testing.T) {
	for _, chosen := range []string{requestLevel, requestResponse, mix} {
		for _, size := range []int{smallestLarge, 20_000, 20_001, 1_000_003} {
			t.Run(fmt.Sprint(chosen, size), func(t *testing.T) {
				g := newGenerator(chosen, 3)
				g.largeEvery, g.largeSize = 4, size
				for i, line := range lines(g, 4) {
					if large := (i+1)%4 == 0; large && len(line)-1 != size {
						t.Errorf("event %d has %d bytes, want %d", i+1, len(line)-1, size)
					} else if large && size >= 20_000 && bytes.Count(line, []byte(`,"field0`)) < size/500 {
						t.Errorf("event %d is large by few properties", i+1)
					} else if !large && len(line) > 7000 {
						t.Errorf("event %d has %d bytes and should not be large", i+1, len(line))
					}
					decode(t, line)
				}
			})
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, chosen := range []string{metadata, requestLevel, requestResponse, mix} {
		b.Run(chosen, func(b *testing.B) {
			log, err := openLog(b.TempDir()+"/audit.log", 256<<20, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer log.file.Close()
			g, line := newGenerator(chosen, 1), []byte{}
			b.ReportAllocs()
			for b.Loop() {
				line = g.append(line[:0], time.Now())
				if err := log.add(line); err != nil {
					b.Fatal(err)
				}
			}
			if err := log.flush(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(log.bytes / b.N))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
