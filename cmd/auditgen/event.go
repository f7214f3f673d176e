// This file makes one event after the other: who asks for what, and the line about it.

package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// The audit levels, and the choice that takes each kind of request at a level of its
// own, as most policies do.
const (
	metadata        = "Metadata"
	requestLevel    = "Request"
	requestResponse = "RequestResponse"
	mix             = "mix"
)

// The audit stages. RequestReceived is not among them: most policies omit it.
const (
	responseStarted  = "ResponseStarted"
	responseComplete = "ResponseComplete"
	panicked         = "Panic"
)

const (
	// panicEvery is how many requests there are to one at which a handler panics.
	panicEvery = 5000
	// shortestWatch and longestWatch bound how many events pass until a watch ends.
	shortestWatch, longestWatch = 20, 400
)

// request is one request to the API server, as far as it shows in an event.
type request struct {
	call     *call
	by       *client
	level    string
	stage    string
	id       [36]byte // auditID
	received time.Time
	at       time.Time // of the stage

	ns, app string
	node    *machine
	suffix  [16]byte // of the pod's name behind the app's
	uid     [36]byte
	version uint64 // resourceVersion
	number  int
	ratio   float64
	fill    int
}

// watch is a request whose ResponseComplete is still to come.
type watch struct {
	request
	due int // number of events before it
}

// generator makes the events of one cluster. The same generator makes the same events,
// as far as it is given the same times.
type generator struct {
	level      string
	largeEvery int // every how many events one is large; 0: none
	largeSize  int // bytes of its line, without the line end

	random  *rand.Rand
	made    int
	version uint64
	watches []watch // the earliest due first
}

func newGenerator(level string, seed uint64) *generator {
	r := rand.New(rand.NewPCG(seed, seed))
	return &generator{level: level, random: r, version: 1_000_000 + r.Uint64N(50_000_000)}
}

// append appends the line of the next event, with its line end, to dst. The event's
// last stage was reached at this time.
func (g *generator) append(dst []byte, at time.Time) []byte {
	at = at.UTC().Truncate(time.Microsecond)
	n := g.made
	g.made++
	if g.largeEvery > 0 && g.made%g.largeEvery == 0 {
		return g.appendLarge(dst, at)
	}
	if len(g.watches) > 0 && g.watches[0].due <= n {
		r := g.watches[0].request
		g.watches = slices.Delete(g.watches, 0, 1)
		r.stage, r.at = responseComplete, at
		return r.append(dst)
	}
	r := g.request(mixture[g.random.IntN(len(mixture))], at)
	switch {
	case r.call.verb == "watch":
		r.stage = responseStarted
		w := watch{r, n + shortestWatch + g.random.IntN(longestWatch-shortestWatch)}
		i, _ := slices.BinarySearchFunc(g.watches, w, func(a, b watch) int { return a.due - b.due })
		g.watches = slices.Insert(g.watches, i, w)
	case g.random.IntN(panicEvery) == 0:
		r.stage = panicked
	}
	return r.append(dst)
}

// appendLarge appends a large event: a CustomResourceDefinition with a long schema.
func (g *generator) appendLarge(dst []byte, at time.Time) []byte {
	r := g.request(large, at)
	start := len(dst)
	dst = r.append(dst)
	missing := g.largeSize + 1 - (len(dst) - start)
	if r.level == requestResponse { // which holds the object twice
		if missing%2 != 0 {
			// resourceVersion occurs in the response alone.
			r.version *= 10
			missing--
		}
		missing /= 2
	}
	r.fill = missing
	return r.append(dst[:start])
}

// request draws one request that is answered.
func (g *generator) request(c *call, at time.Time) request {
	r := request{
		call: c, by: c.by[g.random.IntN(len(c.by))], level: g.level, stage: responseComplete, at: at,
		received: at.Add(-g.latency()),
		ns:       namespaces[g.random.IntN(len(namespaces))],
		app:      apps[g.random.IntN(len(apps))],
		node:     &machines[g.random.IntN(len(machines))],
		number:   1 + g.random.IntN(64),
		ratio:    float64(g.random.IntN(1_000_000)) / 1_000_000,
	}
	if g.level == mix {
		r.level = c.policy
	}
	g.uuid(&r.id)
	g.uuid(&r.uid)
	g.suffix(&r.suffix)
	g.version += g.random.Uint64N(4)
	r.version = g.version
	return r
}

// latency is a few milliseconds mostly, and up to a second now and then.
func (g *generator) latency() time.Duration {
	most := 8 * time.Millisecond
	if g.random.IntN(100) == 0 {
		most = time.Second
	}
	return (400*time.Microsecond + time.Duration(g.random.Int64N(int64(most)))).Truncate(time.Microsecond)
}

// uuid draws one of version 4.
func (g *generator) uuid(to *[36]byte) {
	const digits = "0123456789abcdef"
	high, low := g.random.Uint64(), g.random.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	for i := range to {
		switch i {
		case 8, 13, 18, 23:
			to[i] = '-'
			continue
		case 19:
			high = low
		}
		to[i] = digits[high>>60]
		high <<= 4
	}
}

// suffix draws what a ReplicaSet's pods have behind the name of the Deployment.
func (g *generator) suffix(to *[16]byte) {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	bits := g.random.Uint64()
	for i := range to {
		to[i] = letters[bits%uint64(len(letters))]
		bits = bits>>4 | bits<<60
	}
	to[10] = '-'
}

// append appends the line about r, in kube-apiserver's order of fields.
func (r *request) append(dst []byte) []byte {
	c := r.call
	dst = append(dst, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"`...)
	dst = append(dst, r.level...)
	dst = append(dst, `","auditID":"`...)
	dst = append(dst, r.id[:]...)
	dst = append(dst, `","stage":"`...)
	dst = append(dst, r.stage...)
	dst = append(dst, `","requestURI":"`...)
	dst = c.uri.append(dst, r)
	dst = append(dst, `","verb":"`...)
	dst = append(dst, c.verb...)
	dst = append(dst, `","user":`...)
	dst = r.by.user.append(dst, r)
	dst = append(dst, `,"sourceIPs":["`...)
	dst = r.by.ip.append(dst, r)
	dst = append(dst, `"],"userAgent":"`...)
	dst = append(dst, r.by.agent...)
	dst = append(dst, '"')
	if c.ref != nil {
		dst = append(dst, `,"objectRef":{`...)
		dst = c.ref.append(dst, r)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"responseStatus":{"metadata":{},`...)
	if r.stage == panicked {
		dst = append(dst, panicStatus...)
	} else {
		dst = c.status.append(dst, r)
	}
	dst = append(dst, '}')
	if c.request != nil && r.level != metadata {
		dst = append(dst, `,"requestObject":`...)
		dst = c.request.append(dst, r)
	}
	if c.response != nil && r.level == requestResponse && r.stage == responseComplete {
		dst = append(dst, `,"responseObject":`...)
		dst = c.response.append(dst, r)
	}
	dst = append(dst, `,"requestReceivedTimestamp":"`...)
	dst = r.received.AppendFormat(dst, microForm)
	dst = append(dst, `","stageTimestamp":"`...)
	dst = r.at.AppendFormat(dst, microForm)
	dst = append(dst, `","annotations":{"authorization.k8s.io/decision":"`...)
	if c.forbidden {
		dst = append(dst, `forbid","authorization.k8s.io/reason":"`...)
	} else {
		dst = append(dst, `allow","authorization.k8s.io/reason":"`...)
		dst = append(dst, r.by.reason...)
	}
	dst = append(dst, '"')
	dst = append(dst, c.annotations...)
	return append(dst, "}}\n"...)
}
