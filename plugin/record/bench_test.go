package record

import (
	"bytes"
	"encoding/json"
	"testing"
)

func benchmarkWalk(b *testing.B, name string) {
	chunk := readData(b, name)
	r, times, dst := NewReader(&restoring), new(Times), make([]byte, 0, 2<<20)
	events := 0
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		events = 0
		r.Reset(chunk, Position{}, times)
		out := dst
		for ok := true; ok; {
			if len(out) > 1<<20 {
				out = dst
			}
			out, ok = r.Next(out)
		}
		events = r.Stats().Events
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkParsed(b *testing.B)    { benchmarkWalk(b, "tail-parsed.msgpack") }
func BenchmarkRaw(b *testing.B)       { benchmarkWalk(b, "tail-raw.msgpack") }
func BenchmarkEventList(b *testing.B) { benchmarkWalk(b, "http-eventlist.msgpack") }

// BenchmarkEncodingJSONValid and BenchmarkCopy are the scale for the others.
func BenchmarkEncodingJSONValid(b *testing.B) {
	lines := bytes.Split(readData(b, "audit.log"), []byte("\n"))
	n := 0
	for _, l := range lines {
		n += len(l)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		for _, l := range lines {
			_ = json.Valid(l)
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	log := readData(b, "audit.log")
	dst := make([]byte, 0, 2<<20)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		copy(dst[:len(log)], log)
	}
}
