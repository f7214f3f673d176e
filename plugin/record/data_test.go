package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

// This file runs the package over what kube-apiserver and Fluent Bit wrote. See
// testdata/README.md.

func readData(t testing.TB, name string) []byte {
	t.Helper()
	return gunzip(t, filepath.Join("testdata", name+".gz"))
}

func gunzip(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var chunkFiles = []string{"tail-parsed.msgpack", "tail-raw.msgpack", "http-eventlist.msgpack", "mixed-shapes.msgpack"}

func auditLines(t testing.TB) (lines []string) {
	for l := range bytes.Lines(readData(t, "audit.log")) {
		lines = append(lines, string(bytes.TrimSuffix(l, []byte("\n"))))
	}
	return lines
}

func TestRawLinesArriveByteForByte(t *testing.T) {
	lines := auditLines(t)
	w := walk(t, NewReader(&restoring), readData(t, "tail-raw.msgpack"), nil)
	if !slices.Equal(w.events, lines) {
		t.Fatalf("%d events are not the %d lines of the log", len(w.events), len(lines))
	}
	if want := (Stats{Events: len(lines), Records: len(lines)}); w.stats != want {
		t.Errorf("stats %+v, want %+v", w.stats, want)
	}
}

// tree decodes an event so that equal events are equal trees: numbers are
// integers as written or doubles, as Fluent Bit keeps them.
func tree(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.80s", err, text)
	}
	var numbers func(v any) any
	numbers = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
				return i
			}
			if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
				return u
			}
			f, err := strconv.ParseFloat(string(v), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		case []any:
			for i := range v {
				v[i] = numbers(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = numbers(v[k])
			}
		}
		return v
	}
	return numbers(v)
}

func TestParsedEventsEqualTheirLines(t *testing.T) {
	lines := auditLines(t)
	w := walk(t, NewReader(&restoring), readData(t, "tail-parsed.msgpack"), nil)
	if len(w.events) != len(lines) {
		t.Fatalf("%d events of %d lines", len(w.events), len(lines))
	}
	for i, e := range w.events {
		if got, want := tree(t, e), tree(t, lines[i]); !reflect.DeepEqual(got, want) {
			t.Fatalf("event %d\n got %v\nwant %v", i, got, want)
		}
	}
	if want := (Stats{Events: len(lines), Records: len(lines), TimestampsRestored: len(lines)}); w.stats != want {
		t.Errorf("stats %+v, want %+v", w.stats, want)
	}
}

func TestEventListOfTheHTTPInputIsItsItems(t *testing.T) {
	w := walk(t, NewReader(&restoring), readData(t, "http-eventlist.msgpack"), nil)
	lines := map[string]any{}
	for _, l := range auditLines(t) {
		v := tree(t, l).(map[string]any)
		delete(v, "kind")
		delete(v, "apiVersion")
		lines[v["auditID"].(string)+v["stage"].(string)] = v
	}
	found := 0
	for _, e := range w.events {
		v := tree(t, e).(map[string]any)
		want, ok := lines[v["auditID"].(string)+v["stage"].(string)]
		if ok {
			found++
			if !reflect.DeepEqual(v, want) {
				t.Fatalf("got %v, want %v", v, want)
			}
		}
	}
	if want := (Stats{Events: 400, Records: 1}); w.stats != want || found != 400 {
		t.Errorf("stats %+v, want %+v; %d of the events are in the log", w.stats, want, found)
	}
}

func TestMixedShapes(t *testing.T) {
	// None of the four is a whole audit event: the lines lack a stage.
	w := walk(t, NewReader(&restoring), readData(t, "mixed-shapes.msgpack"), nil)
	if want := []Reason{LineNotAuditEvent, NotAuditEvent, NotJSON, NotJSON}; !slices.Equal(w.skips, want) || w.events != nil {
		t.Errorf("skipped %v, want %v; events %q", w.skips, want, w.events)
	}
}

func TestDataAgreesWithTheReference(t *testing.T) {
	for _, name := range chunkFiles {
		chunk := readData(t, name)
		agrees(t, &restoring, chunk)
	}
}

func TestDataCutAnywhereKeepsTheEventsBeforeTheCut(t *testing.T) {
	chunk := readData(t, "tail-parsed.msgpack")
	r := NewReader(&logKey)
	whole := walk(t, r, chunk, nil)
	for n := 0; n < 5000; n += 7 {
		w := walk(t, r, chunk[:n], nil)
		end := 0 // of the last event
		if k := len(w.events); k > 0 {
			end = whole.ends[k-1]
		}
		if !slices.Equal(w.events, whole.events[:len(w.events)]) || end+w.stats.BrokenBytes != n {
			t.Fatalf("cut at %d: %d events, %d bytes broken", n, len(w.events), w.stats.BrokenBytes)
		}
	}
}

func TestWalkHardlyAllocates(t *testing.T) {
	for _, name := range chunkFiles[:3] {
		chunk := readData(t, name)
		r, times, dst := NewReader(&restoring), new(Times), make([]byte, 0, 1<<20)
		over := func() {
			r.Reset(chunk, times)
			for ok := true; ok; {
				_, ok = r.Next(dst)
				_ = r.Last()
			}
		}
		for range 20 { // until it knows them
			over()
		}
		allocs := testing.AllocsPerRun(3, over)
		// A value that is larger than all before it in its place makes room for itself.
		if n := r.Stats().Events; allocs > float64(n)/100 {
			t.Errorf("%s: %v allocations a walk of %d events", name, allocs, n)
		}
	}
}
