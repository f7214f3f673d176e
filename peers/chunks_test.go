// This file makes as many chunks of the log's events as a benchmark needs, laid
// out as Fluent Bit's in_tail lays them out.

package peers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// form is how an event lies in a record.
type form struct {
	name   string
	record func(t testing.TB, line string) []byte
}

var forms = []form{{"raw", rawRecord}, {"parsed", parsedRecord}}

// recordHead is what in_tail writes before a body: an array of two, in it an array
// of two, the time as extension type 0 with seconds and nanoseconds, and a map of
// no metadata. Fluent Bit reads the fraction as a double and cuts the nanoseconds.
func recordHead(at time.Time) []byte {
	fraction := float64(at.Nanosecond()) / 1e9
	b := []byte("\x92\x92\xd7\x00")
	b = binary.BigEndian.AppendUint32(b, uint32(at.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(fraction*1e9))
	return append(b, "\xdf\x00\x00\x00\x00"...)
}

// rawRecord is what in_tail makes of the line without a parser.
func rawRecord(t testing.TB, line string) []byte {
	t.Helper()
	record := append(recordHead(time.Unix(1760000000, 1)), "\xdf\x00\x00\x00\x01"...)
	return append(record, encode(t, "log", line)...)
}

// parsedRecord is what in_tail makes of the line with a JSON parser that takes
// stageTimestamp for the record's time, and out of the body.
func parsedRecord(t testing.TB, line string) []byte {
	t.Helper()
	var at time.Time
	var members []byte
	n := 0
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	next(t, d)
	for ; d.More(); n++ {
		key := next(t, d)
		if key == "stageTimestamp" {
			var err error
			if at, err = time.Parse(time.RFC3339Nano, next(t, d).(string)); err != nil {
				t.Fatal(err)
			}
			n--
			continue
		}
		members = append(members, encode(t, key)...)
		members = append(members, packed(t, d)...)
	}
	record := binary.BigEndian.AppendUint32(append(recordHead(at), '\xdf'), uint32(n))
	return append(record, members...)
}

// packed is the next value of d as msgpack, its members in their order, which
// decoding to Go's maps would lose.
func packed(t testing.TB, d *json.Decoder) []byte {
	t.Helper()
	token := next(t, d)
	if token != json.Delim('{') && token != json.Delim('[') {
		return encode(t, numbers(t, token))
	}
	var values bytes.Buffer
	n := 0
	for ; d.More(); n++ {
		values.Write(packed(t, d))
	}
	next(t, d) // the end
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	var err error
	if token == json.Delim('{') {
		err = e.EncodeMapLen(n / 2)
	} else {
		err = e.EncodeArrayLen(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), values.Bytes()...)
}

func next(t testing.TB, d *json.Decoder) json.Token {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func encode(t testing.TB, values ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	if err := e.EncodeMulti(values...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// numbered is the auditID, or the text that holds it, of the i-th event: no two
// are the same, as in a real log.
func numbered(text []byte, id string, i int) []byte {
	at := bytes.Index(text, []byte(id))
	copy(text[at:at+len(id)], fmt.Sprintf("%08x", i))
	return text
}

// chunksOf is n events in chunks of 2 MB, the size at which Fluent Bit ends one:
// the lines in their order, over and over, each with an auditID of its own.
func chunksOf(t testing.TB, lines []string, n int, f form) (chunks [][]byte, size int) {
	t.Helper()
	const full = 2e6
	records, ids := make([][]byte, len(lines)), idsOf(t, lines)
	for i, line := range lines {
		records[i] = f.record(t, line)
	}
	var chunk []byte
	for i := range n {
		from := len(chunk)
		chunk = append(chunk, records[i%len(lines)]...)
		numbered(chunk[from:], ids[i%len(lines)], i)
		if len(chunk) >= full || i == n-1 {
			chunks, size = append(chunks, chunk), size+len(chunk)
			chunk = make([]byte, 0, full+1<<12)
		}
	}
	return chunks, size
}

// idsOf is the auditIDs of the lines.
func idsOf(t testing.TB, lines []string) []string {
	t.Helper()
	ids := make([]string, len(lines))
	for i, line := range lines {
		var event struct{ AuditID string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		ids[i] = event.AuditID
	}
	return ids
}

// The benchmarks are worth something only if their chunks are Fluent Bit's.
func TestChunksAreLaidOutAsFluentBitDoes(t *testing.T) {
	for _, c := range []struct {
		form     form
		recorded string
		time     bool // of the event, so that it can be compared
	}{
		{forms[0], recordedRaw, false},
		{forms[1], recordedTree, true},
	} {
		t.Run(c.form.name, func(t *testing.T) {
			want := gunzip(t, c.recorded)
			for i, line := range lines(t, recordedLog) {
				got := c.form.record(t, line)
				if len(got) > len(want) {
					t.Fatalf("record %d has %d bytes, want at most %d", i, len(got), len(want))
				}
				const timeEnd = 12
				from := timeEnd
				if c.time {
					from = 0
				}
				if !bytes.Equal(got[from:], want[from:len(got)]) {
					t.Fatalf("record %d differs:\n got %.300q\nwant %.300q", i, got, want[:len(got)])
				}
				want = want[len(got):]
			}
			if len(want) != 0 {
				t.Errorf("%d bytes are missing at the end", len(want))
			}
		})
	}
}

func TestEachEventOfTheChunksHasAnAuditIDOfItsOwn(t *testing.T) {
	lines := lines(t, logs["metadata"])
	n := 2*len(lines) + 1
	for _, f := range forms {
		chunks, size := chunksOf(t, lines, n, f)
		if got := len(bytes.Join(chunks, nil)); got != size {
			t.Errorf("%s: %d bytes, want %d", f.name, got, size)
		}
		seen := map[string]bool{}
		for _, event := range items(t, deliver(t, chunks, nil), "]}") {
			seen[idsOf(t, []string{event})[0]] = true
		}
		if len(seen) != n {
			t.Errorf("%s: %d auditIDs, want %d", f.name, len(seen), n)
		}
	}
}
