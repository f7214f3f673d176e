package truncate

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

const mark = `"annotations":{"audit.k8s.io/truncated":"true"}`

// obj is an object large enough for its removal to pay.
var obj = `{"kind":"Secret","requestObject":{},"x":["` + strings.Repeat("y", 100) + `}\"",{"annotations":null}]}`

func TestEventHasExactlyTheObjectsRemovedAndTheAnnotationAdded(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"both objects, no annotations",
			`{"kind":"Event","level":"RequestResponse","requestObject":` + obj + `,"responseObject":` + obj + `,"stage":"s"}`,
			`{"kind":"Event","level":"RequestResponse","stage":"s",` + mark + `}`},
		{"level Request",
			`{"level":"Request","requestObject":` + obj + `}`,
			`{"level":"Request",` + mark + `}`},
		{"objects first",
			`{"responseObject":` + obj + `,"requestObject":` + obj + `,"level":"Request"}`,
			`{"level":"Request",` + mark + `}`},
		{"objects apart and last",
			`{"requestObject":` + obj + `,"level":"Request","verb":"get","responseObject":` + obj + `}`,
			`{"level":"Request","verb":"get",` + mark + `}`},
		{"an object that is no object",
			`{"level":"Request","requestObject":"` + strings.Repeat(`\"},`, 20) + `","responseObject":-1.5e3}`,
			`{"level":"Request",` + mark + `}`},
		{"annotations are kept, in their place and order",
			`{"annotations":{"z":"1","a":"\u003c"},"level":"Request","requestObject":` + obj + `}`,
			`{"annotations":{"z":"1","a":"\u003c","audit.k8s.io/truncated":"true"},"level":"Request"}`},
		{"annotations empty",
			`{"level":"Request","annotations":{},"requestObject":` + obj + `}`,
			`{"level":"Request",` + mark + `}`},
		{"annotations null",
			`{"level":"Request","annotations":null,"requestObject":` + obj + `}`,
			`{"level":"Request",` + mark + `}`},
		{"annotation there with another value",
			`{"level":"Request","annotations":{"audit.k8s.io/truncated":"false","b":"c"},"requestObject":` + obj + `}`,
			`{"level":"Request","annotations":{"audit.k8s.io/truncated":"true","b":"c"}}`},
		{"annotation there and no string",
			`{"level":"Request","annotations":{"b":"c","audit.k8s.io/truncated":[{}]},"requestObject":` + obj + `}`,
			`{"level":"Request","annotations":{"b":"c","audit.k8s.io/truncated":"true"}}`},
		{"annotation there already",
			`{"level":"Request","annotations":{"audit.k8s.io/truncated":"true"},"requestObject":null}`,
			`{"level":"Request",` + mark + `}`},
		{"annotation there twice",
			`{"level":"Request","annotations":{"audit.k8s.io/truncated":"a","audit.k8s.io/truncated":"b"},"requestObject":` + obj + `}`,
			`{"level":"Request","annotations":{"audit.k8s.io/truncated":"true","audit.k8s.io/truncated":"true"}}`},
		{"annotation's name at the top is another member",
			`{"level":"Request","audit.k8s.io/truncated":"no","requestObject":` + obj + `}`,
			`{"level":"Request","audit.k8s.io/truncated":"no",` + mark + `}`},
		{"annotations twice",
			`{"level":"Request","annotations":{"a":"b"},"requestObject":` + obj + `,"annotations":null}`,
			`{"level":"Request","annotations":{"a":"b","audit.k8s.io/truncated":"true"},` + mark + `}`},
		{"objects given twice",
			`{"requestObject":` + obj + `,"level":"Request","requestObject":{},"responseObject":[],"verb":"get","responseObject":` + obj + `}`,
			`{"level":"Request","verb":"get",` + mark + `}`},
		{"escapes in names and in the level are kept",
			`{"\u006cevel":"R\u0065quest","request\u004fbject":` + obj + `,"\u0061nnotations":{"audit.k8s.io\/truncated":"","\u0062":"c"}}`,
			`{"\u006cevel":"R\u0065quest","\u0061nnotations":{"audit.k8s.io\/truncated":"true","\u0062":"c"}}`},
		{"every character of a name escaped",
			`{"level":"Request","` + escaped("responseObject") + `":` + obj + `}`,
			`{"level":"Request",` + mark + `}`},
		{"names that only resemble",
			`{"level":"Request","requestObject\\":1,"RequestObject":2,"requestObject ":3,"request\u004Fbjects":4,"\"requestObject":5,"requestObject":` + obj + `}`,
			`{"level":"Request","requestObject\\":1,"RequestObject":2,"requestObject ":3,"request\u004Fbjects":4,"\"requestObject":5,` + mark + `}`},
		{"deeper members of the same name",
			`{"x":{"requestObject":1,"annotations":"","level":"None"},"y":[{"responseObject":2}],"level":"Request","requestObject":` + obj + `}`,
			`{"x":{"requestObject":1,"annotations":"","level":"None"},"y":[{"responseObject":2}],"level":"Request",` + mark + `}`},
		{"white space goes with what it surrounds",
			"{ \"level\" :\t\"Request\"\r\n,\n \"requestObject\" : " + obj + " ,\t\"annotations\" : { \"a\" : \"b\" } , \"x\":1.5 }",
			"{ \"level\" :\t\"Request\"\r\n,\t\"annotations\" : { \"a\" : \"b\" ,\"audit.k8s.io/truncated\":\"true\"} , \"x\":1.5 }"},
		{"white space, the object first, annotations without a member",
			`{ "requestObject" : ` + obj + ` , "level":"Request" , "annotations" : { } }`,
			`{ "level":"Request" , "annotations" : {"audit.k8s.io/truncated":"true"} }`},
		{"white space, the object last",
			`{ "level":"Request" , "requestObject" : ` + obj + ` }`,
			`{ "level":"Request" ,` + mark + `}`},
		{"the last level counts",
			`{"level":"Metadata","level":"Request","level":null,"requestObject":` + obj + `}`,
			`{"level":"Metadata","level":"Request","level":null,` + mark + `}`},
		{"numbers and literals as they are written",
			`{"a":1.0,"b":1E+400,"c":9007199254740993,"d":true,"e":false,"f":null,"level":"Request","requestObject":` + obj + `,"g":-0}`,
			`{"a":1.0,"b":1E+400,"c":9007199254740993,"d":true,"e":false,"f":null,"level":"Request","g":-0,` + mark + `}`},
		{"one byte smaller", // the annotation has 48 bytes with its comma
			`{"level":"Request","requestObject":"` + strings.Repeat("x", 30) + `"}`,
			`{"level":"Request",` + mark + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Event([]byte("before "), []byte(tt.in))
			if want := "before " + tt.want; string(got) != want || !ok {
				t.Errorf("%v\n got %s\nwant %s", ok, got, want)
			}
			if again, ok := Event(nil, []byte(tt.want)); ok {
				t.Errorf("truncated twice it is %s", again)
			}
		})
	}
}

func TestAnEventThatTruncatingDoesNotHelpIsLeftAlone(t *testing.T) {
	for _, tt := range []struct{ name, in string }{
		{"empty", `{}`},
		{"empty, with white space", "{ \n}"},
		{"level None", `{"level":"None","requestObject":` + obj + `}`},
		{"level Metadata", `{"level":"Metadata","requestObject":` + obj + `}`},
		{"no level", `{"requestObject":` + obj + `}`},
		{"level null", `{"level":null,"requestObject":` + obj + `}`},
		{"level unknown", `{"level":"request","requestObject":` + obj + `}`},
		{"level no string", `{"level":["Request"],"requestObject":` + obj + `}`},
		{"the last level is Metadata", `{"level":"Request","requestObject":` + obj + `,"level":"Metadata"}`},
		{"the last level is no string", `{"level":"Request","requestObject":` + obj + `,"level":3}`},
		{"level deeper only", `{"user":{"level":"Request"},"requestObject":` + obj + `}`},
		{"no object", `{"level":"RequestResponse","verb":"` + strings.Repeat("x", 1000) + `"}`},
		{"an object as large as the annotation", `{"level":"Request","requestObject":"` + strings.Repeat("x", 29) + `"}`},
		{"an empty object", `{"level":"Request","requestObject":{}}`},
		{"annotations a string", `{"level":"Request","annotations":"{}","requestObject":` + obj + `}`},
		{"annotations an array", `{"level":"Request","annotations":[],"requestObject":` + obj + `}`},
		{"annotations a number", `{"level":"Request","requestObject":` + obj + `,"annotations":7}`},
		{"one of the annotations a boolean", `{"level":"Request","annotations":{},"requestObject":` + obj + `,"annotations":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := Event([]byte("before"), []byte(tt.in)); ok || string(got) != "before" {
				t.Errorf("%v %s", ok, got)
			}
		})
	}
}

// escaped is a string's content with each of its characters as an escape.
func escaped(ascii string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(ascii) {
		b.WriteString(`\u00` + digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
	}
	return b.String()
}

func TestALargeEventIsTruncatedIntoOneBufferOfItsSize(t *testing.T) {
	const size = 20 << 20
	for _, tt := range []struct{ name, in, want string }{
		{"long strings",
			`{"level":"Request","requestObject":"` + strings.Repeat(`\\`, size/4) + `","requestURI":"` + strings.Repeat(`\"`, size/4) + `"}`,
			`{"level":"Request","requestURI":"` + strings.Repeat(`\"`, size/4) + `",` + mark + `}`},
		{"long key with an escape",
			`{"level":"Request","requestObject":` + obj + `,"` + strings.Repeat("x", size) + `\n":1}`,
			`{"level":"Request","` + strings.Repeat("x", size) + `\n":1,` + mark + `}`},
		{"many members",
			`{"level":"Request","requestObject":` + obj + strings.Repeat(`,"requestObject":0,"x":[]`, size/50) + `}`,
			`{"level":"Request"` + strings.Repeat(`,"x":[]`, size/50) + `,` + mark + `}`},
		{"depth",
			`{"level":"Request","x":` + nested(100_000) + `,"requestObject":` + nested(1_000_000) + `}`,
			`{"level":"Request","x":` + nested(100_000) + `,` + mark + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			var got []byte
			var ok bool
			bytesBefore, objectsBefore := allocated()
			got, ok = Event(nil, in)
			bytesAfter, objectsAfter := allocated()
			if string(got) != tt.want || !ok {
				t.Fatalf("%v, %d bytes, want %d", ok, len(got), len(tt.want))
			}
			const slack = 32 << 10 // large buffers are whole pages
			if n := bytesAfter - bytesBefore; n > uint64(len(got))+slack {
				t.Errorf("%d bytes allocated for %d", n, len(got))
			}
			if n := objectsAfter - objectsBefore; n > 50 {
				t.Errorf("%d allocations", n)
			}
		})
	}
}

// allocated is how many bytes and objects this process has allocated.
func allocated() (size, objects uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, m.Mallocs
}

func nested(depth int) string {
	return strings.Repeat(`[{"a":`, depth/2) + `"]"` + strings.Repeat(`}]`, depth/2)
}

func TestSizeIsThatOfTheLineInTheAuditLog(t *testing.T) {
	if got, want := Size([]byte(`{"kind":"Event"}`)), len("{\"kind\":\"Event\"}\n"); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

func TestRoomInTheBufferIsUsed(t *testing.T) {
	in := []byte(`{"level":"Request","requestObject":` + obj + `}`)
	dst := make([]byte, 1, 1000)
	got, ok := Event(dst, in)
	if !ok || unsafe.SliceData(got) != unsafe.SliceData(dst) {
		t.Errorf("%v, or the event is in another buffer", ok)
	}
}
