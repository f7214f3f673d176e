// What the ledger costs: the benchmarks of a flush, and the chunks that it takes, whose
// events are new each time.

package plugin

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// freshChunk is a chunk whose events can be made new ones, in place.
type freshChunk struct {
	bytes []byte
	ids   []int // where the auditIDs begin
	next  uint32
}

func newFreshChunk(c []byte) *freshChunk {
	f := &freshChunk{bytes: c}
	for _, key := range []string{`"auditID":"`, "\xa7auditID\xd9\x24", "\xa7auditID\xd9\x26"} { // in a line; as msgpack, with the length of a UUID
		for at := 0; ; {
			n := bytes.Index(c[at:], []byte(key))
			if n < 0 {
				break
			}
			at += n + len(key)
			f.ids = append(f.ids, at)
		}
	}
	return f
}

// renumber gives each event another auditID.
func (f *freshChunk) renumber() {
	const digits = "0123456789abcdef"
	for _, at := range f.ids {
		f.next++
		for i := range 8 {
			f.bytes[at+i] = digits[f.next>>(4*i)&15]
		}
	}
}

// metadataLines are those of a real log.
func metadataLines(t testing.TB) (lines []string) {
	t.Helper()
	f, err := os.Open("../test/e2e/testdata/audit-metadata.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if strings.Count(string(line), `"auditID":"`) == 1 { // not in an object too
			lines = append(lines, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return lines
}

const chunkSize = 2 << 20

// rawChunk is 2 MB of a real log as in_tail makes them.
func rawChunk(t testing.TB) *freshChunk {
	t.Helper()
	var c []byte
	for lines := metadataLines(t); len(c) < chunkSize; {
		for _, line := range lines {
			if c = append(c, chunk(line)...); len(c) >= chunkSize {
				break
			}
		}
	}
	return newFreshChunk(c)
}

// parsedChunk2MB is the same lines after Fluent Bit's JSON parser.
func parsedChunk2MB(t testing.TB) *freshChunk {
	t.Helper()
	var c []byte
	for lines, size := metadataLines(t), 0; size < chunkSize; {
		for _, line := range lines {
			c = append(c, 0x92, 0x92, 0xd7, 0x00, 0x68, 0xe7, 0x1d, 0x00, 0, 0, 0, 0, 0x80)
			d := json.NewDecoder(strings.NewReader(line))
			d.UseNumber()
			c = appendParsed(t, c, d)
			if size += len(line); size >= chunkSize {
				break
			}
		}
	}
	return newFreshChunk(c)
}

// appendParsed appends the next JSON value as msgpack, as Fluent Bit's parser does.
func appendParsed(t testing.TB, b []byte, d *json.Decoder) []byte {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := token.(type) {
	case json.Delim:
		at, n := len(b), uint16(0)
		b = append(b, map[json.Delim]byte{'{': 0xde, '[': 0xdc}[v], 0, 0)
		for d.More() {
			if b = appendParsed(t, b, d); v == '{' {
				b = appendParsed(t, b, d)
			}
			n++
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint16(b[at+1:], n)
		return b
	case string:
		switch n := len(v); {
		case n < 32:
			b = append(b, 0xa0|byte(n))
		case n < 256:
			b = append(b, 0xd9, byte(n))
		default:
			b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
		}
		return append(b, v...)
	case bool:
		if v {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
	}
	return append(b, 0xc0)
}

// flushing is an instance that sends to a receiver which takes everything.
func flushing(b *testing.B, keys ...string) *Instance {
	b.Helper()
	in, err := (&Process{Version: "test", Log: io.Discard}).Init(from(append(keys, "URL", discard(b))...))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(in.Exit)
	return in
}

var forms = map[string]func(testing.TB) *freshChunk{"raw": rawChunk, "parsed": parsedChunk2MB}

func perEvent(b *testing.B, events int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}

// BenchmarkAChunkThatIsDone walks a chunk of 2 MB again after it was delivered.
func BenchmarkAChunkThatIsDone(b *testing.B) {
	for form, of := range forms {
		b.Run(form, func(b *testing.B) {
			in, c := flushing(b), of(b)
			c.renumber()
			for in.Flush(c.bytes, "kube.audit") != OK {
			}
			b.SetBytes(int64(len(c.bytes)))
			for b.Loop() {
				if answer := in.Flush(c.bytes, "kube.audit"); answer != OK {
					b.Fatal("answer", answer)
				}
			}
			perEvent(b, len(c.ids))
		})
	}
}

// BenchmarkAChunkThatIsNew delivers 2 MB at a full window, to the socket.
func BenchmarkAChunkThatIsNew(b *testing.B) {
	for form, of := range forms {
		for _, dir := range []string{"", "State_Dir"} {
			b.Run(fmt.Sprintf("%s/%s", form, dir), func(b *testing.B) {
				var keys []string
				if dir != "" {
					keys = []string{"State_Dir", b.TempDir()}
				}
				in, c := flushing(b, keys...), of(b)
				flush := func() {
					for c.renumber(); in.Flush(c.bytes, "kube.audit") != OK; {
					}
				}
				for c.next < 1_000_000 {
					flush()
				}
				b.SetBytes(int64(len(c.bytes)))
				b.ResetTimer()
				for range b.N {
					flush()
				}
				perEvent(b, len(c.ids))
				if n := in.counts.suppressed.Load(); n > 0 {
					b.Errorf("%d events were suppressed", n)
				}
			})
		}
	}
}
