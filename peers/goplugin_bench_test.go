// This file measures reading a chunk and writing JSON, alone, against the ways
// that Go plugins have.

package peers

import (
	"bytes"
	"reflect"
	"testing"
	"unsafe"

	"github.com/fluent/fluent-bit-go/output"
	jsoniter "github.com/json-iterator/go"
	"github.com/tinylib/msgp/msgp"
	"k8s.io/apimachinery/pkg/util/diff"

	"out_k8saudit/plugin/record"
)

// way is a way to make JSON of the events in a chunk. It calls yield with each,
// whose bytes are valid during the call only.
type way func(t testing.TB, chunk []byte, form string, yield func(event []byte))

// byReader is this plugin's way: lines are checked, timestamps put back.
func byReader() way {
	r := record.NewReader(&record.Options{LogKey: "log", RestoreTimestamp: true})
	times, bodies := new(record.Times), make([]byte, 0, 2<<20)
	return func(_ testing.TB, chunk []byte, _ string, yield func([]byte)) {
		r.Reset(chunk, times)
		body := bodies
		for {
			event, ok := r.Next(body)
			if !ok {
				return
			}
			yield(event[len(body):])
			if body = event; len(body) > 1<<20 {
				body = bodies
			}
		}
	}
}

// byGoPlugin is what plugins built on fluent-bit-go do: its decoder, a map of what
// the record holds, and json-iterator. A raw line is validated and goes on as it
// is, which costs less than making JSON of the record.
func byGoPlugin(t testing.TB, chunk []byte, form string, yield func([]byte)) {
	d := output.NewDecoder(unsafe.Pointer(unsafe.SliceData(chunk)), len(chunk))
	for {
		ret, _, body := output.GetRecord(d)
		if ret != 0 {
			return
		}
		if form == "raw" {
			line, _ := body["log"].([]byte)
			if !jsoniter.ConfigDefault.Valid(line) {
				t.Fatal("a line is not valid")
			}
			yield(line)
			continue
		}
		// ConfigCompatibleWithStandardLibrary, which sorts the keys, takes longer.
		event, err := jsoniter.ConfigDefault.Marshal(withStrings(body))
		if err != nil {
			t.Fatal(err)
		}
		yield(event)
	}
}

// withStrings makes of a decoded value one that has a JSON encoding.
func withStrings(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case []any:
		for i := range v {
			v[i] = withStrings(v[i])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key.(string)] = withStrings(value)
		}
		return m
	}
	return v
}

// byMsgp is tinylib/msgp's translation. It makes JSON of the whole body, also of
// one that holds a raw line, and of all that it is given, so that the body's end
// has to be found first.
func byMsgp(t testing.TB, chunk []byte, _ string, yield func([]byte)) {
	var event bytes.Buffer
	for len(chunk) > 0 {
		// [[time, metadata], body]
		_, rest, err := msgp.ReadArrayHeaderBytes(chunk)
		if err != nil {
			t.Fatal(err)
		}
		if rest, err = msgp.Skip(rest); err != nil {
			t.Fatal(err)
		}
		if chunk, err = msgp.Skip(rest); err != nil {
			t.Fatal(err)
		}
		event.Reset()
		if _, err = msgp.UnmarshalAsJSON(&event, rest[:len(rest)-len(chunk)]); err != nil {
			t.Fatal(err)
		}
		yield(event.Bytes())
	}
}

// over is the way through all the chunks, and returns how many events came of it.
func (w way) over(t testing.TB, chunks [][]byte, form string) func() int {
	return func() (events int) {
		for _, chunk := range chunks {
			w(t, chunk, form, func([]byte) { events++ })
		}
		return events
	}
}

// BenchmarkAgainstAGoPlugin reads the same chunks in each way. Nothing is sent.
func BenchmarkAgainstAGoPlugin(b *testing.B) {
	const n, reps = 16_000, 5
	for _, f := range forms {
		b.Run(f.name, func(b *testing.B) {
			chunks, size := chunksOf(b, lines(b, logs["metadata"]), n, f)
			compare(b, n, size, reps,
				side{name: "plugin", run: byReader().over(b, chunks, f.name), times: 10},
				side{name: "goplugin", run: way(byGoPlugin).over(b, chunks, f.name), times: 1},
				side{name: "msgp", run: way(byMsgp).over(b, chunks, f.name), times: 4})
		})
	}
}

func TestEachWayYieldsTheLogsEvents(t *testing.T) {
	for _, f := range forms {
		for name, w := range map[string]way{"plugin": byReader(), "goplugin": byGoPlugin, "msgp": byMsgp} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				i, lines := 0, lines(t, recordedLog)
				for _, line := range lines {
					w(t, f.record(t, line), f.name, func(event []byte) {
						want := tree(t, []byte(line))
						switch {
						case f.name == "raw" && name == "msgp":
							want = map[string]any{"log": line}
						case f.name == "parsed" && name != "plugin":
							delete(want.(map[string]any), "stageTimestamp")
						}
						if got := tree(t, event); !reflect.DeepEqual(got, want) {
							t.Fatalf("event %d differs:\n%s", i, diff.Diff(got, want))
						}
						i++
					})
				}
				if i != len(lines) {
					t.Errorf("%d events, want %d", i, len(lines))
				}
			})
		}
	}
}
