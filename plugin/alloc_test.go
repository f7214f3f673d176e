// What a flush allocates, down to the socket.

package plugin

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// discard is a receiver that answers 200 to whatever comes, and allocates nothing for
// a request.
func discard(t testing.TB) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	return "http://" + l.Addr().String()
}

func answer(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 1<<20)
	var lengthKey, end = []byte("Content-Length: "), []byte("\r\n\r\n")
	ok := []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	have := 0
	for {
		n, err := conn.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		header := bytes.Index(buf[:have], end)
		if header < 0 {
			continue
		}
		digits := buf[bytes.Index(buf[:header], lengthKey)+len(lengthKey):]
		length, _ := strconv.Atoi(string(digits[:bytes.IndexByte(digits, '\r')]))
		for left := header + len(end) + length - have; left > 0; left -= n {
			if n, err = conn.Read(buf[:min(left, len(buf))]); err != nil {
				return
			}
		}
		have = 0
		if _, err := conn.Write(ok); err != nil {
			return
		}
	}
}

// wholeLog is a chunk of 4,000 events of a real log.
func wholeLog(t testing.TB) *freshChunk {
	lines := metadataLines(t)
	return newFreshChunk(chunk(append(lines, lines...)...))
}

// withLarge is a chunk with an event of 800 kB after each 4,000 small ones.
func withLarge(testing.TB) *freshChunk {
	small := strings.Replace(event(0), `"00000"`, `"00000000-0"`, 1)
	large := strings.Replace(small, "}", `,"requestObject":"`+strings.Repeat("x", 800_000)+`"}`, 1)
	return newFreshChunk(chunk(slices.Repeat(append(slices.Repeat([]string{small}, 4000), large), 3)...))
}

func TestAFlushHardlyAllocates(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates as well")
	}
	for name, tt := range map[string]struct {
		mode  string
		chunk func(testing.TB) *freshChunk
	}{
		"blocking": {"blocking", wholeLog}, "batch": {"batch", wholeLog}, "with events of 800 kB": {"blocking", withLarge},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Process{Version: "test", Log: io.Discard}
			in, err := p.Init(from("URL", discard(t), "Mode", tt.mode))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Exit()
			c := tt.chunk(t)
			events := len(c.ids)
			over := func(times int) {
				for range times {
					for c.renumber(); in.Flush(c.bytes, "kube.audit") != OK; {
					}
				}
			}
			over(20) // until what is kept for reuse is there
			const times = 50
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			over(times)
			runtime.ReadMemStats(&after)
			allocs := float64(after.Mallocs-before.Mallocs) / float64(times*events)
			size := (after.TotalAlloc - before.TotalAlloc) / times
			if n := in.counts.suppressed.Load(); n > 0 && tt.mode == "blocking" {
				t.Errorf("%d events were suppressed", n)
			}
			t.Logf("%.3f allocations an event, %d bytes a chunk of %d events", allocs, size, events)
			if allocs >= 0.05 {
				t.Errorf("%.3f allocations an event", allocs)
			}
			if size > uint64(len(c.bytes)/4) { // a body's slice may still be new, but not one for each chunk
				t.Errorf("%d bytes a chunk of %d", size, len(c.bytes))
			}
		})
	}
}
