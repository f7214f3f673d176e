// This file decodes what the plugin posts as strictly as an API server can.

package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/diff"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/apis/audit/install"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// strict is the API server's codecs for the audit types; unknown fields and
// fields given twice are errors.
var strict = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

// decode decodes an object of the given media type to its own version, and to
// the API server's internal one.
func decode[V1, Internal runtime.Object](mediaType string, data []byte) (v1 V1, internal Internal, err error) {
	info, ok := runtime.SerializerInfoForMediaType(strict.SupportedMediaTypes(), mediaType)
	if !ok {
		return v1, internal, fmt.Errorf("no object has the media type %q", mediaType)
	}
	as := func(d runtime.Decoder) (obj runtime.Object) {
		if err == nil {
			obj, _, err = d.Decode(data, nil, nil)
		}
		return obj
	}
	v1, _ = as(info.Serializer).(V1)
	internal, ok = as(strict.DecoderToVersion(info.Serializer, auditinternal.SchemeGroupVersion)).(Internal)
	if err == nil && !ok {
		err = fmt.Errorf("it is no %T", internal)
	}
	return v1, internal, err
}

// decodedPosts is the events of all posts in order. Each post must be one that
// the API server could have sent.
func decodedPosts(t *testing.T, posts []post) (v1 []auditv1.Event, internal []auditinternal.Event) {
	t.Helper()
	for i, p := range posts {
		if got, want := p.method+" "+strings.Join(p.header["Content-Type"], ","), "POST application/json"; got != want {
			t.Errorf("request %d is %q, want %q", i, got, want)
		}
		list, hub, err := decode[*auditv1.EventList, *auditinternal.EventList](p.header.Get("Content-Type"), p.body)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if len(list.Items) == 0 {
			t.Errorf("request %d has no event", i)
		}
		v1 = append(v1, list.Items...)
		for _, e := range hub.Items {
			e.TypeMeta = metav1.TypeMeta{} // left in place in lists alone
			internal = append(internal, e)
		}
	}
	return v1, internal
}

func decodedLines(t testing.TB, lines []string) (v1 []auditv1.Event, internal []auditinternal.Event) {
	t.Helper()
	for i, line := range lines {
		e, hub, err := decode[*auditv1.Event, *auditinternal.Event](runtime.ContentTypeJSON, []byte(line))
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		v1 = append(v1, *e)
		internal = append(internal, *hub)
	}
	return v1, internal
}

// wantEqual asserts that the events are the same in the same order.
func wantEqual[E any](t *testing.T, got, want []E) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if !apiequality.Semantic.DeepEqual(got[i], want[i]) {
			t.Fatalf("event %d differs:\n%s", i, diff.Diff(got[i], want[i]))
		}
	}
}

// canonical makes msgpack of the objects in events, in place, so that equal JSON
// is equal bytes: keys in order, and numbers as Fluent Bit keeps them, integers
// as written or doubles.
func canonical(t *testing.T, events []auditinternal.Event) []auditinternal.Event {
	t.Helper()
	for i := range events {
		for _, o := range []*runtime.Unknown{events[i].RequestObject, events[i].ResponseObject} {
			if o != nil {
				var b bytes.Buffer
				e := msgpack.NewEncoder(&b)
				e.SetSortMapKeys(true)
				if err := e.Encode(tree(t, o.Raw)); err != nil {
					t.Fatal(err)
				}
				o.Raw = b.Bytes()
			}
		}
	}
	return events
}

// tree decodes JSON, its integers to int64 or uint64 and other numbers to float64.
func tree(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return numbers(t, v)
}

func numbers(t testing.TB, v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(t, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(t, v[k])
		}
	}
	return v
}

var compressions = []string{"none", "gzip"}

func TestRawLinesDecodeStrictlyToTheLogsEvents(t *testing.T) {
	inputs, chunks := inputs(t), map[string][]byte{}
	for name, lines := range inputs {
		chunks[name] = rawChunk(t, lines)
	}
	inputs["recorded"], chunks["recorded"] = lines(t, recordedLog), gunzip(t, recordedRaw)
	for name, lines := range inputs {
		want, wantInternal := decodedLines(t, lines)
		for _, compress := range compressions {
			t.Run(name+"/"+compress, func(t *testing.T) {
				posts := deliver(t, [][]byte{chunks[name]}, map[string]string{"Compress": compress})
				wantCompression(t, posts, compress)
				got, internal := decodedPosts(t, posts)
				wantEqual(t, got, want)
				wantEqual(t, internal, wantInternal)
			})
		}
	}
}

func TestParsedRecordsDecodeStrictlyToTheLogsEvents(t *testing.T) {
	want, wantInternal := decodedLines(t, lines(t, recordedLog))
	canonical(t, wantInternal)
	for _, compress := range compressions {
		t.Run(compress, func(t *testing.T) {
			posts := deliver(t, [][]byte{gunzip(t, recordedTree)}, map[string]string{"Compress": compress})
			wantCompression(t, posts, compress)
			got, internal := decodedPosts(t, posts)
			wantEqual(t, canonical(t, internal), wantInternal)
			for i := range got {
				if got[i].TypeMeta != want[i].TypeMeta {
					t.Fatalf("event %d is %v, want %v", i, got[i].TypeMeta, want[i].TypeMeta)
				}
			}
		})
	}
}

// The recorded posts of an API server hold some of the log's events.
func TestRecordedPostsOfAnAPIServerDecodeStrictlyToTheLogsEvents(t *testing.T) {
	_, inLog := decodedLines(t, lines(t, recordedLog))
	canonical(t, inLog)
	for _, compress := range compressions {
		t.Run(compress, func(t *testing.T) {
			posts := deliver(t, [][]byte{gunzip(t, recordedHTTP)}, map[string]string{"Compress": compress})
			wantCompression(t, posts, compress)
			_, got := decodedPosts(t, posts)
			if len(got) != 400 {
				t.Errorf("%d events, want the 400 of the posts", len(got))
			}
			left := slices.Clone(inLog)
			for i, e := range canonical(t, got) {
				at := slices.IndexFunc(left, func(l auditinternal.Event) bool {
					return l.AuditID == e.AuditID && apiequality.Semantic.DeepEqual(l, e)
				})
				if at < 0 {
					t.Fatalf("event %d, %s %s, is not in the log, or not as often", i, e.AuditID, e.Stage)
				}
				left = slices.Delete(left, at, at+1)
			}
		})
	}
}

func wantCompression(t *testing.T, posts []post, compress string) {
	t.Helper()
	want := ""
	if compress == "gzip" {
		want = "gzip"
	}
	for i, p := range posts {
		if got := p.header.Get("Content-Encoding"); got != want {
			t.Errorf("request %d has the content encoding %q, want %q", i, got, want)
		}
	}
}

func TestAChunkWithoutEventsIsNoRequest(t *testing.T) {
	chunks := [][]byte{rawChunk(t, []string{"no event"}), rawChunk(t, []string{`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[]}`})}
	if posts := deliver(t, chunks, nil); len(posts) != 0 {
		t.Errorf("%d requests, want none; the first is %s", len(posts), posts[0].body)
	}
}

// The other tests prove nothing unless the decoder refuses what it should.
func TestTheDecoderIsStrict(t *testing.T) {
	const event = `{"auditID":"a","stage":"Panic"%s}`
	for name, c := range map[string]struct{ mediaType, more, want string }{
		"right":           {"application/json", ``, ""},
		"unknown field":   {"application/json", `,"extra":1`, `unknown field "items[0].extra"`},
		"field twice":     {"application/json", `,"stage":"Panic"`, `duplicate field "items[0].stage"`},
		"other case":      {"application/json", `,"Verb":"get"`, `unknown field "items[0].Verb"`},
		"wrong type":      {"application/json", `,"verb":1`, "cannot unmarshal number"},
		"not JSON":        {"application/json", `,`, "invalid character"},
		"media type":      {"text/plain", ``, `no object has the media type "text/plain"`},
		"field of object": {"application/json", `,"user":{"name":"u"}`, `unknown field "items[0].user.name"`},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + fmt.Sprintf(event, c.more) + `]}`
			_, _, err := decode[*auditv1.EventList, *auditinternal.EventList](c.mediaType, []byte(body))
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
