// Package batch is the batching backend: it takes audit events, cuts them into batches, and has a
// Sender post each until it is accepted or it is certain that it never will be.
//
// Four plain types decide, without locks or clocks of their own, and Backend, which holds the lock,
// asks them and sends:
//
//   - queue (queue.go, fresh.go): whose turn it is
//   - judge (judge.go, answer.go): whose fault a failure is
//   - sizeLimit (sizelimit.go): how large a body may be
//   - gate (gate.go): whether the webhook is up, slow or down
//
// An event's way: intake.go enqueues it in a run; dispatch.go cuts a batch, a view of runs
// (view.go, pending.go), sends it, and does with it what the four make of the answer;
// suspects.go is what becomes of those at fault; backend.go settles it and keeps the account;
// notes.go tells the observer.
//
// docs/delivery.md says the same to operators. The zoo (zoo_*_test.go) holds it against
// receivers of all kinds.
package batch
