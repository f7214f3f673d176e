// Fuzzes the reader of lines.

package deadletter

import (
	"bufio"
	"bytes"
	"io"
	"testing"
)

func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "\n\n", "{}\n", "{}", "{\"a\":1}\n{\"b\"", "0123456789abcdef\n", "0123456789abcde\n0",
		"0123456789abcdef0123456789abcdef0123456789abcdef\n\nx", "\x00\x00\x00", "\r\n"} {
		for _, limit := range []byte{1, 16, 17, 255} {
			f.Add([]byte(seed), limit)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, limit byte) {
		if limit == 0 {
			return
		}
		want := bytes.Split(data, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1] // what follows the last line feed is no line
		}
		l := &lineReader{in: bufio.NewReaderSize(bytes.NewReader(data), 16), limit: int(limit)}
		for i, w := range want {
			line, length, err := l.next()
			if err != nil || length != len(w) || !bytes.Equal(line, w[:min(len(w), int(limit))]) {
				t.Fatalf("line %d is %q of %d bytes, %v, want %q", i, line, length, err, w)
			}
		}
		if line, _, err := l.next(); err != io.EOF {
			t.Errorf("after the last line: %q, %v", line, err)
		}
		if len(l.long) > int(limit) {
			t.Errorf("%d bytes were kept, the limit is %d", len(l.long), limit)
		}
	})
}
