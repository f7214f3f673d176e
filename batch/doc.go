// Package batch is the batching backend: it takes audit events, cuts them into
// EventLists, sends each until the webhook accepts it, and ends without
// interrupting a request.
//
// It is shaped after kube-apiserver's buffered audit backend
// (k8s.io/apiserver/plugin/pkg/audit/buffered) and its graceful end
// (kubernetes pull request 50577): a closed stop channel ends the intake and
// nothing else, what was taken is still sent, and Shutdown blocks until the
// last request has returned. It departs from it where that backend loses
// events: a full buffer refuses instead of dropping, a failed batch is retried
// for ever, and the number of requests and bytes in memory is bounded.
//
// There are two intakes. ProcessEvents is asynchronous: nil means that the
// events are in the buffer. A Delivery is acknowledged: it settles when each of
// its events has been accepted, rejected or given up.
//
// At all times: taken = accepted + rejected + given up + pending (Stats).
package batch
