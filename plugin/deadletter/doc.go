// Package deadletter keeps what cannot be delivered in files of one folder, one
// JSON value a line:
//
//   - rejected.log: events that the webhook refused for good. It is a valid audit
//     log: each line is an event, byte for byte, but that a line feed between an
//     event's tokens becomes a space.
//   - undelivered-ID-TIME.log: events that were still undelivered at the end, in
//     the same form. ID stands for the output that they belong to. A file is at most
//     64 MB, unless one event is larger. "cat undelivered-*.log" is a valid audit log,
//     unless a crash cut off the last line of a file: cat runs it into the next.
//   - skipped.log: what was not understood, each as
//     {"time":…,"tag":…,"reason":…,"bytes":N,"raw":"…"}, or with "base64":"…" in
//     place of "raw" if it is not UTF-8. It holds the first 64 KiB at most; bytes is
//     the full length.
//
// At 100 MiB rejected.log and skipped.log get the time in their names, such as
// rejected-2006-01-02T15-04-05.000.log (in UTC), and the five newest are kept of
// each. A file of undelivered events is written once. It is deleted as a whole when
// the last of its events has settled, and never before; which of them were delivered
// until then is for others to remember. When the files of one output take 1 GiB, Keep
// returns an error.
//
// The folder may be shared by several outputs and several processes. Each change of
// it is made under an flock of the folder, which the kernel takes back from a
// process that is killed; a file of undelivered events is flocked by who writes or
// sends it. So the folder has to be on a local file system.
//
// Everything here blocks on the disk alone, and on others that hold the folder's lock
// while they do so: for one line, or for a look at the names. Nothing starts a
// goroutine, and nothing is logged. No error holds a byte of an event.
package deadletter
