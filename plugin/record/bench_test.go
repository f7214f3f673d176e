package record

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// This file measures the walk, in the bytes of the chunk per second. AUDIT_DATA
// names the folder with the whole logs that the copies in testdata are from.

// logLines are the lines of a log at that level, metadata or requestresponse.
func logLines(t testing.TB, level string) (lines [][]byte) {
	t.Helper()
	dir := os.Getenv("AUDIT_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "test", "e2e", "testdata")
	}
	log := gunzip(t, filepath.Join(dir, "audit-"+level+".log.gz"))
	return bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
}

// rawChunk is what in_tail makes of the lines.
func rawChunk(lines [][]byte) (chunk []byte) {
	for _, l := range lines {
		chunk = append(chunk, rec(pairs{"log", string(l)})...)
	}
	return chunk
}

// parsedChunk is what in_tail makes of the lines with a JSON parser that keeps the
// time key.
func parsedChunk(t testing.TB, lines [][]byte) (chunk []byte) {
	t.Helper()
	for _, l := range lines {
		d := json.NewDecoder(bytes.NewReader(l))
		d.UseNumber()
		chunk = append(chunk, rec(parsed(t, d))...)
	}
	return chunk
}

// parsed is the next value of d, its pairs in their order.
func parsed(t testing.TB, d *json.Decoder) any {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	var all []any
	switch v := token.(type) {
	case json.Delim:
		for d.More() {
			all = append(all, parsed(t, d))
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		if v == '{' {
			return pairs(all)
		}
		return items(all)
	case json.Number:
		if n, err := v.Int64(); err == nil && !strings.ContainsAny(string(v), ".eE") {
			return int(n)
		}
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	return token
}

// walkOver is a walk over the whole chunk. It returns how many events it held.
func walkOver(b *testing.B, chunk []byte) func() int {
	r, times, dst := NewReader(&restoring), new(Times), make([]byte, 0, 4<<20)
	return func() int {
		r.Reset(chunk, times)
		out := dst
		for ok := true; ok; {
			if len(out) > 1<<20 {
				out = dst
			}
			out, ok = r.Next(out)
		}
		if s := r.Stats(); s.Skipped != [NumReasons]int{} {
			b.Fatalf("%+v", s)
		}
		return r.Stats().Events
	}
}

// BenchmarkWalk measures each form by itself.
func BenchmarkWalk(b *testing.B) {
	walk := func(name string, chunk []byte) {
		b.Run(name, func(b *testing.B) {
			over := walkOver(b, chunk)
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				events = over()
			}
			b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	for _, level := range []string{"metadata", "requestresponse"} {
		lines := logLines(b, level)
		walk(level+"/raw", rawChunk(lines))
		walk(level+"/parsed", parsedChunk(b, lines))
	}
	walk("eventlist", readData(b, "http-eventlist.msgpack"))
	large := [][]byte{[]byte(line("a", `"requestObject":{"data":"`+strings.Repeat("eW91IHNlZSBub3RoaW5n", 40_000)+`"}`))}
	walk("800 kB/raw", rawChunk(large))
	walk("800 kB/parsed", parsedChunk(b, large))
	// Of an object that holds JSON as text: a ConfigMap, or what kubectl applied last.
	escapes := [][]byte{[]byte(line("a", `"requestObject":{"data":"`+strings.Repeat(`{\"kind\":\"ConfigMap\",\"name\":\"n\u003c1\u003e\"}, `, 15_000)+`"}`))}
	walk("800 kB of escapes/raw", rawChunk(escapes))
	walk("800 kB of escapes/parsed", parsedChunk(b, escapes))
}

// BenchmarkCompared measures, turn by turn in one run, in CPU time and as medians:
// both forms, encoding/json.Valid over the same lines, and a copy of them.
func BenchmarkCompared(b *testing.B) {
	for _, level := range []string{"metadata", "requestresponse"} {
		b.Run(level, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			lines := logLines(b, level)
			raw, parsed := rawChunk(lines), parsedChunk(b, lines)
			walkRaw, walkParsed := walkOver(b, raw), walkOver(b, parsed)
			dst := make([]byte, 0, len(raw))
			sides := []struct {
				bytes int
				run   func()
				took  []float64 // seconds
			}{
				{bytes: len(raw), run: func() { walkRaw() }},
				{bytes: len(parsed), run: func() { walkParsed() }},
				{bytes: len(raw), run: func() {
					for _, l := range lines {
						if !json.Valid(l) {
							b.Fatal("not valid")
						}
					}
				}},
				{bytes: len(raw), run: func() { dst = append(dst[:0], raw...) }},
			}
			for b.Loop() {
				for range 20 {
					for i := range sides {
						before := cpuTime(b)
						sides[i].run()
						sides[i].took = append(sides[i].took, (cpuTime(b) - before).Seconds())
					}
				}
			}
			median := func(i int) float64 {
				slices.Sort(sides[i].took)
				return sides[i].took[len(sides[i].took)/2]
			}
			speed := func(i int) float64 { return float64(sides[i].bytes) / median(i) / 1e6 }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(speed(0), "raw-MB/s")
			b.ReportMetric(speed(1), "parsed-MB/s")
			b.ReportMetric(speed(2), "json.Valid-MB/s")
			b.ReportMetric(speed(3), "copy-MB/s")
			b.ReportMetric(median(2)/median(0), "raw/json.Valid")
			b.ReportMetric(median(2)/median(1), "parsed/json.Valid")
		})
	}
}

// cpuTime is the CPU time of this thread, to the nanosecond.
func cpuTime(b *testing.B) time.Duration {
	const threadTime = 3 // CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadTime, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
