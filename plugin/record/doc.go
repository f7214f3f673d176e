// Package record reads a chunk of Fluent Bit records, as an output plugin is
// handed it (msgpack), and yields the Kubernetes audit events in it as JSON.
//
// What a record holds is decided record by record, since one chunk mixes
// shapes. Its body may be
//
//  1. a map that is an audit event, as Fluent Bit's JSON parser leaves it;
//  2. a map whose Log_Key holds the event: as the raw line, text or bytes, or
//     as a map;
//  3. an audit EventList, as a map (of its own or under Log_Key) or in the raw
//     line. Its items are the events.
//
// A map that fits 1 and 2 is an event of form 1. An audit event has auditID and
// stage, both strings; its kind is Event or absent, its apiVersion
// audit.k8s.io/v1 or absent. Where a key occurs twice the last one counts.
//
// A raw line is checked (RFC 8259 and UTF-8) and passed on byte for byte, so
// are the items of a raw EventList. A map is written as JSON with its pairs in
// their order, integers exact and doubles in the shortest form that reads as
// the same double. In both, each byte that is not UTF-8 becomes U+FFFD, as
// encoding/json decodes it, and the event is counted.
//
// A walk always begins at the chunk's start. It gives the same events as the one
// before, but for restored timestamps, which depend on what was learnt of the
// tag's record times. Event says by what an event is recognised all the same.
//
// Everything else is skipped and counted by Reason, and the walk goes on after
// it. Lengths in a chunk are believed only as far as there are bytes; nothing
// is allocated on a declared size; no call recurses.
//
// The package does no I/O, starts no goroutine, reads no clock and logs
// nothing.
package record
