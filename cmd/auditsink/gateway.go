// This file is a slow receiver behind a gateway that gives up.

package main

import (
	"net/http"
	"strconv"
	"time"
)

// gateway is how long the events of a body take, and how long is waited for them.
type gateway struct {
	event    time.Duration // for each
	patience time.Duration // 0: without a bound
}

// passes takes the time that so many events take, and reports whether they may be stored.
// If not, the request is answered and counted: with 504 when they take too long.
func (g gateway) passes(w http.ResponseWriter, r *http.Request, events int, count func(as string), stopping <-chan struct{}) bool {
	if g.event == 0 {
		return true
	}
	takes := time.Duration(events) * g.event
	givesUp := g.patience > 0 && takes > g.patience
	if givesUp {
		takes = g.patience
	}
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		count("broken") // the sender went away: nothing is stored, nobody to answer
		return false
	case <-stopping:
		count("cut")
		reset(w)
		return false
	}
	if givesUp {
		http.Error(w, "the receiver takes too long", http.StatusGatewayTimeout)
		count(strconv.Itoa(http.StatusGatewayTimeout))
	}
	return !givesUp
}
