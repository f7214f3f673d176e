// This file takes requests: it checks, stores, counts and answers them.

package main

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"
)

type receiverOptions struct {
	faults        faults
	storeOnFail   bool
	delay         time.Duration
	gateway       gateway
	credentials   credentials
	maxBody       int64
	maxBodyStatus int
	discard       bool
	stopAfter     int // events; 0: never
	semantic      bool
	absent        []string
}

// receiver is the webhook. It answers 200 only to what is stored.
type receiver struct {
	receiverOptions
	store    *store // nil: events are only counted
	requests *requestLog
	tally    *tally
	started  time.Time
	stop     func()
	stopping chan struct{}
}

func newReceiver(o receiverOptions) *receiver {
	return &receiver{
		receiverOptions: o,
		tally:           newTally(comparison{semantic: o.semantic, absent: o.absent}),
		stopping:        make(chan struct{}),
		stop:            func() {},
	}
}

// start begins the time that -fail-from counts from.
func (rv *receiver) start() { rv.started = time.Now() }

func (rv *receiver) connState(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		rv.tally.connection()
	}
}

func (rv *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := request{Begin: time.Now()}
	rv.serve(w, r, &seen)
	seen.End = time.Now()
	if err := rv.requests.add(seen); err != nil {
		rv.stop() // the file would not say what was under way
	}
}

// serve answers r, and says in seen what it stored of it.
func (rv *receiver) serve(w http.ResponseWriter, r *http.Request, seen *request) {
	n := rv.tally.request(r.ProtoMajor)
	fault := rv.faults.byNumber(n, time.Since(rv.started))
	if fault != nil && fault.kind == cutBefore {
		fault.answer(w, r, rv.tally.answer, rv.stopping)
		return
	}
	if !rv.authorized(w, r) {
		return
	}
	if refusal := checkHeader(r); refusal != 0 {
		rv.refuse(w, refusal, "an audit webhook takes POST with Content-Type application/json, plain or gzip")
		return
	}
	if gzipped(r) {
		rv.tally.gzip()
	}
	if rv.discard {
		size, err := io.Copy(io.Discard, r.Body)
		rv.tally.body(size)
		if err != nil {
			rv.tally.answer("broken")
			return
		}
		rv.finish(w, r, fault)
		return
	}

	body, size, err := readBody(r, rv.maxBody)
	rv.tally.body(size)
	switch {
	case errors.Is(err, errTooLarge) && fault != nil && !rv.storeOnFail:
		// It fails as it was told to: by its number, not for its size.
	case errors.Is(err, errTooLarge):
		http.Error(w, fmt.Sprintf("request body larger than %d bytes", rv.maxBody), rv.maxBodyStatus)
		rv.tally.answer(strconv.Itoa(rv.maxBodyStatus))
		return
	case errors.Is(err, errBrokenGzip):
		rv.refuse(w, http.StatusBadRequest, err.Error())
		return
	case err != nil:
		rv.tally.answer("broken") // the sender went away: nothing is stored, nobody to answer
		return
	}
	if fault == nil {
		fault = rv.faults.byBody(body)
	}
	if fault == nil || rv.storeOnFail {
		events, err := splitEventList(body)
		if err != nil {
			rv.refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		if !rv.gateway.passes(w, r, len(events), rv.tally.answer, rv.stopping) {
			return
		}
		first, total, err := rv.take(events)
		if err != nil {
			http.Error(w, "cannot store", http.StatusInternalServerError)
			rv.tally.answer("500")
			return
		}
		seen.First, seen.Events = first, len(events)
		if rv.stopAfter > 0 && total >= rv.stopAfter {
			rv.stop() // which waits for the answer
		}
	}
	rv.finish(w, r, fault)
}

// authorized reports whether r brings the credentials asked for, and answers it if not.
func (rv *receiver) authorized(w http.ResponseWriter, r *http.Request) bool {
	ok, err := rv.credentials.allow(r)
	if ok {
		return true
	}
	// Read to the end: a sender that is still writing would see a reset, not the status.
	size, _ := io.Copy(io.Discard, r.Body)
	rv.tally.body(size)
	status, why := http.StatusUnauthorized, "the credentials are not the ones asked for"
	if err != nil {
		status, why = http.StatusInternalServerError, "cannot read which credentials to ask for"
	} else {
		w.Header().Set("WWW-Authenticate", rv.credentials.challenge())
	}
	http.Error(w, why, status)
	rv.tally.answer(strconv.Itoa(status))
	return false
}

// finish answers, after the delay: fault is how it fails, or nil.
func (rv *receiver) finish(w http.ResponseWriter, r *http.Request, fault *fault) {
	if rv.delay > 0 {
		time.Sleep(rv.delay)
	}
	if fault != nil {
		fault.answer(w, r, rv.tally.answer, rv.stopping)
		return
	}
	w.WriteHeader(http.StatusOK)
	rv.tally.answer("200")
}

// take stores and counts the events of one body, and returns which line of the store is
// its first, and how many events there are now.
func (rv *receiver) take(events []event) (first, total int, err error) {
	if rv.store != nil {
		if first, err = rv.store.append(events); err != nil {
			return 0, 0, err
		}
	}
	return first, rv.tally.batch(events), nil
}

// refuse answers what no audit webhook would take.
func (rv *receiver) refuse(w http.ResponseWriter, status int, why string) {
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, why, status)
	rv.tally.answer(strconv.Itoa(status))
	rv.tally.badBody()
}

// checkHeader returns the status to refuse r with, or 0.
func checkHeader(r *http.Request) int {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return http.StatusUnsupportedMediaType
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" && !gzipped(r) {
		return http.StatusUnsupportedMediaType
	}
	return 0
}
