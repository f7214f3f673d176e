// This file truncates events as the API server's own truncating backend does.

package peers

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/plugin/pkg/audit/fake"
	apiserver "k8s.io/apiserver/plugin/pkg/audit/truncate"

	"out_k8saudit/plugin/truncate"
)

// truncatedByAPIServer is what an API server makes of an event with
// --audit-webhook-truncate-max-event-size, or nil if it drops the event.
func truncatedByAPIServer(event *auditinternal.Event, maxSize int) (out *auditinternal.Event) {
	sink := &fake.Backend{OnRequest: func(events []*auditinternal.Event) { out = events[0] }}
	config := apiserver.Config{MaxEventSize: int64(maxSize), MaxBatchSize: math.MaxInt64}
	// A copy, because the backend writes to the annotations that it is given.
	apiserver.NewBackend(sink, config, auditv1.SchemeGroupVersion).ProcessEvents(event.DeepCopy())
	return out
}

// truncated is the same decision with the plugin's functions.
func truncated(event []byte, maxSize int) []byte {
	if truncate.Size(event) <= maxSize {
		return event
	}
	out, ok := truncate.Event(nil, event)
	if !ok || truncate.Size(out) > maxSize {
		return nil
	}
	return out
}

// encoded is the event as the API server sends and logs it.
func encoded(t *testing.T, event *auditinternal.Event) string {
	t.Helper()
	b, err := runtime.Encode(audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), event)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// muteStandardError spares the test's output the events that the API server drops,
// which it logs there in full.
func muteStandardError(t *testing.T) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = null
	t.Cleanup(func() {
		os.Stderr = stderr
		null.Close()
	})
}

// truncateInputs is the lines of the logs, and the odd one with each level and with
// annotations of each kind.
func truncateInputs(t *testing.T) map[string][]string {
	t.Helper()
	all := inputs(t)
	const level, annotations = `"level":"RequestResponse"`, `,"annotations":{"a/b":"c"}`
	for _, l := range []string{"", "None", "Metadata", "Request", "RequestResponse", "request"} {
		line := strings.Replace(odd, level, `"level":"`+l+`"`, 1)
		all["odd"] = append(all["odd"], line,
			strings.Replace(line, annotations, "", 1),
			strings.Replace(line, annotations, `,"annotations":{"audit.k8s.io/truncated":"false","b/c":"d"}`, 1))
	}
	return all
}

// At every size an event is left whole, truncated or dropped as the API server
// does, and to the byte at the same size. A truncated event is the API server's
// but for the order of its annotations.
func TestEventsAreTruncatedAsByTheAPIServer(t *testing.T) {
	muteStandardError(t)
	outcomes := map[string]map[string]int{}
	for name, lines := range truncateInputs(t) {
		count := map[string]int{}
		outcomes[name] = count
		_, events := decodedLines(t, lines)
		for i, line := range lines {
			if want := encoded(t, &events[i]); line+"\n" != want {
				t.Fatalf("%s, line %d is not as the API server writes it:\n%.300s\n%.300s", name, i+1, line, want)
			}
			size := truncate.Size([]byte(line))
			sizes := []int{1, 500, 700, 1000, 4000, 102400, size - 1, size}
			if out, ok := truncate.Event(nil, []byte(line)); ok {
				sizes = append(sizes, truncate.Size(out)-1, truncate.Size(out))
			}
			for _, maxSize := range sizes {
				at := fmt.Sprintf("%s, line %d of size %d, at most %d", name, i+1, size, maxSize)
				want, got := truncatedByAPIServer(&events[i], maxSize), truncated([]byte(line), maxSize)
				if want == nil || got == nil {
					if want != nil || got != nil {
						t.Fatalf("%s: the API server drops it: %v; the plugin: %v", at, want == nil, got == nil)
					}
					count["dropped"]++
					continue
				}
				_, event, err := decode[*auditv1.Event, *auditinternal.Event](runtime.ContentTypeJSON, got)
				if err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				wantEqual(t, []auditinternal.Event{*event}, []auditinternal.Event{*want})
				text := encoded(t, want)
				if again := encoded(t, event); again != text || len(text) != truncate.Size(got) {
					t.Fatalf("%s:\n   got %s\nencoded %s\n  want %s", at, got, again, text)
				}
				if string(got) == line {
					count["whole"]++
				} else {
					count["truncated"]++
				}
			}
		}
	}
	for name, want := range map[string][]string{
		"metadata":        {"whole", "dropped"},
		"requestresponse": {"whole", "truncated", "dropped"},
		"odd":             {"whole", "truncated", "dropped"},
	} {
		for _, outcome := range want {
			if outcomes[name][outcome] == 0 {
				t.Errorf("%s: no event is %s", name, outcome)
			}
		}
	}
	t.Log(outcomes)
}

// Of names given twice, names with escapes and white space the API server's decoder,
// which is not strict where it reads events, takes what the plugin takes.
func TestOddlyWrittenEventsAreTruncatedAsTheAPIServerReadsThem(t *testing.T) {
	muteStandardError(t)
	object := `{"a":"` + strings.Repeat("x", 200) + `","requestObject":1}`
	decoder := audit.Codecs.UniversalDecoder(auditinternal.SchemeGroupVersion)
	read := func(text []byte) *auditinternal.Event {
		t.Helper()
		var event auditinternal.Event
		if _, _, err := decoder.Decode(text, nil, &event); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return &event
	}
	for _, tt := range []struct {
		members   string // behind kind and apiVersion
		truncated bool
	}{
		{`"level":"Metadata","level":"Request","requestObject":` + object, true},
		{`"level":"Request","level":null,"requestObject":` + object, true},
		{`"level":"Request","level":"Metadata","requestObject":` + object, false},
		{`"Level":"Request","requestObject":` + object, false},
		{`"level":null,"requestObject":` + object, false},
		{`"requestObject":` + object, false},
		{`"\u006cevel":"R\u0065quest","request\u004fbject":` + object + `,"\u0061nnotations":{"audit.k8s.io\/truncated":"","a":"b"}`, true},
		{`"level":"Request","requestObject":{},"requestObject":` + object + `,"responseObject":` + object + `,"responseObject":null`, true},
		{`"level":"Request","RequestObject":{},"responseObject":` + object, true},
		{`"level":"Request","annotations":{"a":"b"},"requestObject":` + object + `,"annotations":{"c":"d"}`, true},
		{`"level":"Request","annotations":null,"requestObject":` + object + `,"annotations":{"audit.k8s.io/truncated":"no","audit.k8s.io/truncated":"NO"}`, true},
		{" \"level\" :\t\"Request\" , \"requestObject\" : " + object + " ,\r\n\"annotations\" : { } ", true},
	} {
		line := []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1",` + tt.members + `}`)
		event := read(line)
		got, ok := truncate.Event(nil, line)
		// Too large by a byte, so that the API server truncates it if it can.
		want := truncatedByAPIServer(event, len(encoded(t, event))-1)
		if ok != tt.truncated || (want != nil) != tt.truncated {
			t.Errorf("the plugin truncates it: %v, the API server: %v, want %v: %s", ok, want != nil, tt.truncated, line)
			continue
		}
		if ok {
			wantEqual(t, []auditinternal.Event{*read(got)}, []auditinternal.Event{*want})
		}
	}
}
