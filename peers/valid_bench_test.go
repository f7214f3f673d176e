// This file measures reading a chunk of raw lines against checking the same lines
// for JSON alone.

package peers

import (
	"encoding/json"
	"testing"

	"github.com/bytedance/sonic"
)

// BenchmarkDecodeAgainstJSONValid reads chunks of raw lines, which checks JSON and
// UTF-8, finds what makes it an audit event, and copies it; and checks the lines
// with encoding/json and with sonic, neither of which looks at the UTF-8.
func BenchmarkDecodeAgainstJSONValid(b *testing.B) {
	const n, reps = 16_000, 5
	raw := forms[0]
	chunks, size := chunksOf(b, lines(b, logs["metadata"]), n, raw)
	var lines [][]byte
	for _, chunk := range chunks {
		byGoPlugin(b, chunk, raw.name, func(line []byte) { lines = append(lines, line) })
	}
	valid := func(check func([]byte) bool) func() int {
		return func() (valid int) {
			for _, line := range lines {
				if check(line) {
					valid++
				}
			}
			return valid
		}
	}
	compare(b, n, size, reps,
		side{name: "plugin", run: byReader().over(b, chunks, raw.name), times: 10},
		side{name: "json.Valid", run: valid(json.Valid), times: 4},
		side{name: "sonic.Valid", run: valid(sonic.Valid), times: 10})
}
