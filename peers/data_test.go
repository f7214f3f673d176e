// This file reads what kube-apiserver and Fluent Bit wrote, and makes chunks of
// lines as Fluent Bit does.

package peers

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// The tests' input. AUDIT_DATA names a folder with a larger set of the same.
var (
	logs = map[string]string{
		"metadata":        "../test/e2e/testdata/audit-metadata.log",
		"requestresponse": "../test/e2e/testdata/audit-requestresponse.log",
	}
	// What Fluent Bit made of recordedLog.
	recordedLog  = "../plugin/record/testdata/audit.log"
	recordedRaw  = "../plugin/record/testdata/tail-raw.msgpack"
	recordedTree = "../plugin/record/testdata/tail-parsed.msgpack"
	recordedHTTP = "../plugin/record/testdata/http-eventlist.msgpack"
)

func TestMain(m *testing.M) {
	if os.Getenv(receiverEnv) != "" {
		receive()
		return
	}
	if dir := os.Getenv("AUDIT_DATA"); dir != "" {
		for level := range logs {
			logs[level] = filepath.Join(dir, "audit-"+level+".log")
		}
		recordedLog = logs["requestresponse"]
		recordedRaw = filepath.Join(dir, "chunk-tail-raw.msgpack")
		recordedTree = filepath.Join(dir, "chunk-tail-parsed.msgpack")
		recordedHTTP = filepath.Join(dir, "chunk-in-http-eventlist.msgpack")
	}
	os.Exit(m.Run())
}

// gunzip is what the file name.gz holds.
func gunzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(name + ".gz")
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

func lines(t testing.TB, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(string(gunzip(t, name)), "\n"), "\n")
}

// odd is an event whose objects hold what decoders get wrong, laid out as
// kube-apiserver writes it.
const odd = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"odd","stage":"ResponseComplete",` +
	`"requestURI":"/\u003ca\u0026b\u003e","verb":"create","user":{"username":"日本","extra":{"k":["a",""]}},"sourceIPs":["::1"],` +
	`"requestObject":{"double":1.0,"small":1e-7,"large":1e+300,"above 2^53":9007199254740993,"highest":18446744073709551615,` +
	`"lowest":-9223372036854775808,"array":[],"object":{},"null":null,"text":"\u0000\u2028\"\\\ud83d\ude00","":[[{"":false}]]},` +
	`"responseObject":[1.5,true,"` + "\u007f" + `"],"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z",` +
	`"stageTimestamp":"2026-01-02T03:04:05.120000Z","annotations":{"a/b":"c"}}`

// inputs is the lines of the logs, by level, and the odd one.
func inputs(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"odd": {odd}}
	for level, name := range logs {
		all[level] = lines(t, name)
	}
	return all
}

// rawChunk is what in_tail makes of lines without a parser.
func rawChunk(t *testing.T, lines []string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, line := range lines {
		appendRecord(t, &b, map[string]any{"log": line})
	}
	return b.Bytes()
}

// appendRecord appends [[time, {}], body], the record of Fluent Bit 2.1 and later.
func appendRecord(t *testing.T, b *bytes.Buffer, body any) {
	t.Helper()
	// An array of two, in it an array of two: the time, as extension type 0 with
	// seconds and nanoseconds, and no metadata.
	b.WriteString("\x92\x92\xd7\x00\x68\xe7\x78\x00\x00\x00\x00\x01\x80")
	if err := msgpack.NewEncoder(b).Encode(body); err != nil {
		t.Fatal(err)
	}
}
