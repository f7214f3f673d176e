// Package ledger remembers which events have been dealt with, event by event, so that
// whatever Fluent Bit reads or sends again is delivered once: a chunk after RETRY, the
// backlog of a restart, a rotated file that in_tail reads a second time.
//
// An event is known by its identity, 93 bits of a keyed HighwayHash-128 of what was read.
// The key is random and stays in State_Dir, so those who write events cannot make two of
// them alike. Two events that are the same in every byte are one event. The auditID alone
// says nothing: clients choose it.
//
// An event is in one of three states:
//
//	New       never seen, given up, or forgotten
//	InFlight  somebody has reserved it and is delivering it
//	Done      accepted by the webhook, or set aside
//
// Reserve looks a run of events up and makes the new ones in flight. Whoever gets New
// has to say how it ended, with Done or Release: an event that stays in flight holds
// its chunk for ever.
//
// # What is remembered, and for how long
//
// Done events are kept in two generations. The younger one takes what is done; when it
// has half of the window (Duplicate_Window) and is 60 s old, the older one is forgotten
// and a new generation begins. So at least half of the window is remembered, and each
// event for at least 60 s, which is longer than a chunk waits for its retry. An event
// that is seen again moves to the younger generation. Events in flight are never
// forgotten. While Hold is on, and in the first minute of a generation, it grows to eight
// windows before it ends.
//
// The table is memory outside Go's heap, about 20 bytes an event, and is given back by
// Close.
//
// # State_Dir
//
// With a folder, what is done is also appended to a journal of two files, one for each
// generation, with one write for each call of Done and without fsync: it survives
// kill -9, and after a power failure events may be sent again. A folder that cannot be
// written costs that persistence, and no event.
package ledger
