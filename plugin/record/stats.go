package record

// This file holds what a walk reports: the reasons for skipping and the counts.

// Reason says why a record, or an item of an EventList, was skipped.
type Reason uint8

const (
	none Reason = iota

	NotRecord         // the top-level value is no log record: [time, map] or [[time, metadata], map]
	NotAuditEvent     // the map, or the item of a list, is not an audit event
	NotJSON           // the raw line is not one valid JSON text (cut by the input, or plain text)
	LineNotAuditEvent // the raw line is JSON, but not an audit event
	OtherKind         // kind or apiVersion are those of something else
	TooDeep           // nested deeper than MaxDepth
	Unrepresentable   // a map holds what JSON cannot: NaN, infinity, ext, a key that is not a string
	Broken            // from here to its end the chunk is cut off or not msgpack
	Panicked          // reading it panicked: a bug in this package
	reasons           = iota
)

// NumReasons is the length of an array indexed by Reason. Reason 0 is unused.
const NumReasons = reasons

var reasonNames = [NumReasons]string{
	none:              "none",
	NotRecord:         "not a log record",
	NotAuditEvent:     "not an audit event",
	NotJSON:           "raw line is not valid JSON",
	LineNotAuditEvent: "raw line is not an audit event",
	OtherKind:         "other kind or apiVersion",
	TooDeep:           "nested too deep",
	Unrepresentable:   "value that JSON cannot hold",
	Broken:            "cut off or not msgpack",
	Panicked:          "panic while reading",
}

// String is the reason in words for a log line or a metric's label.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown reason"
}

// Stats counts what a Reader met since Reset.
type Stats struct {
	Events  int // returned by Next
	Records int // top-level values; group markers and the Broken rest are none

	// Skipped records and items of EventLists; the Broken rest counts as one.
	Skipped [NumReasons]int

	InvalidUTF8        int // events in which bytes were replaced by U+FFFD
	TimestampsRestored int // events that got a timestamp back from the record's time
	TimestampsLeftOut  int // events that lack one timestamp and did not get it back
	BrokenBytes        int // bytes given up at the end of a chunk that stops being msgpack
}

// Skip describes a record or item that was skipped.
type Skip struct {
	Reason Reason
	Offset int // of the record in the chunk
	Item   int // in the record's EventList, or -1 for the whole record

	// Raw views the record or, as Item says, the item: msgpack, or JSON for an
	// item of a raw EventList. For Broken it is the rest of the chunk.
	Raw []byte
	// Line views the raw line under Log_Key, if the whole record was skipped
	// for what is in it.
	Line []byte

	Panic any    // what was recovered, for Panicked
	Stack []byte // the stack of the panic, for Panicked
}
