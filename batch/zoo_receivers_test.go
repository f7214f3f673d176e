// The receivers of the zoo, and what must hold with each of them.

package batch

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// zooRow is a receiver, the load that it gets, and what must hold. Only name, receiver
// and length are needed: without more 500 good events of 700 bytes come every second.
type zooRow struct {
	name     string
	receiver func(*play) func(post) reply
	length   time.Duration // for which the load is measured
	short    time.Duration // the same without -zoo.full; 0: two minutes
	tail     time.Duration // within which what was measured must have arrived; 0: ten minutes

	lot   int                        // events that come at once
	every time.Duration              // how often; a second if not set
	once  bool                       // a single lot comes
	size  int                        // of an event; 700 if not set
	bad   func(n int, s uint64) bool // whether event n is bad, with seed s
	// badSize is that of a bad event, if another one.
	badSize int

	config    func(*Config)
	mode      string                    // empty: both
	grace     time.Duration             // what arrives so much after the length still counts as in time; MaxWait if not set
	stopAfter func(*play) time.Duration // stop then, without a tail
	stores    bool                      // it stores what it answers with a failure
	leaves    bool                      // good events need not arrive
	awaitsBad bool                      // the bad ones are waited for too
	mayFail   float64                   // the part of the seeds that may break a bound
	underRace bool                      // played with the race detector too
	bounds    []bound
}

// zooTimeout is that of a request without an answer.
type zooTimeout struct{}

func (zooTimeout) Error() string   { return "timeout awaiting response headers" }
func (zooTimeout) Timeout() bool   { return true }
func (zooTimeout) Temporary() bool { return true }

var errReset = fmt.Errorf("write: %w", syscall.ECONNRESET)

const (
	quick = 5 * time.Millisecond // what an answer takes
	hour  = time.Hour
)

func takes() reply            { return reply{after: quick} }
func refuses(err error) reply { return reply{after: quick, err: err} }

// way is a way to fail.
type way struct {
	name string
	reply
}

var (
	noAnswer = way{"no answer", reply{after: requestTimeout}}
	never    = []way{noAnswer, {"504 after 15 s", reply{15 * time.Second, status(504), false}}, {"reset after 5 s", reply{5 * time.Second, errReset, false}}}
	resets   = way{"reset", refuses(errReset)}
)

func answers(code int) way { return way{fmt.Sprint(code), refuses(status(code))} }

// failsOn fails bodies of which that is true.
func failsOn(w way, is func(post) bool) func(*play) func(post) reply {
	return func(*play) func(post) reply {
		return func(q post) reply {
			if is(q) {
				return w.reply
			}
			return takes()
		}
	}
}

func hasBad(q post) bool { return q.bad > 0 }

// failsWhile fails everything from one part of the length to another.
func failsWhile(w way, from, to, of int) func(*play) func(post) reply {
	return func(p *play) func(post) reply {
		return func(q post) reply {
			if q.at >= p.part(from, of) && q.at < p.part(to, of) {
				return w.reply
			}
			return takes()
		}
	}
}

// failsAThird is a balancer with one bad server of three, from that part of the length on.
func failsAThird(w way, from, of int) func(*play) func(post) reply {
	return func(p *play) func(post) reply {
		return func(q post) reply {
			if q.at >= p.part(from, of) && p.rnd.IntN(3) == 0 {
				return w.reply
			}
			return takes()
		}
	}
}

// bansAfterBad answers a bad event one way and then everything another way for a time.
func bansAfterBad(w, then way, ban time.Duration) func(*play) func(post) reply {
	return func(*play) func(post) reply {
		until := time.Duration(0)
		return func(q post) reply {
			switch {
			case q.at < until:
				return then.reply
			case q.bad > 0:
				until = q.at + ban
				return w.reply
			}
			return takes()
		}
	}
}

// oneIn is one event of n, at random.
func oneIn(n int) func(int, uint64) bool {
	return func(i int, seed uint64) bool { return scatter(i, seed)%uint64(n) == 0 }
}

// oneOfEach is one at random of each n events: a play has some however short it is.
func oneOfEach(n int) func(int, uint64) bool {
	return func(i int, seed uint64) bool { return i%n == int(scatter(i/n, seed)%uint64(n)) }
}

// scatter makes of i, for each seed, a number that looks random.
func scatter(i int, seed uint64) uint64 {
	h := (uint64(i+1) + seed<<32) * 0x9E3779B97F4A7C15
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return h ^ h>>32
}

func oneRequest(c *Config) { c.MaxConcurrentRequests = 1 }

// What is measured of an outcome, as bounds.

func rateAtLeast(least float64) bound {
	return atLeast("percent of the good events in time", least, (*zooOutcome).percent)
}

func waitAtMost(most time.Duration) bound {
	return atMost("seconds that a good event waits", most.Seconds(), func(o *zooOutcome) float64 { return o.waitGood.Seconds() })
}

func requestsPer1000(most float64) bound {
	return atMost("requests per 1,000 events", most, (*zooOutcome).requestsPer1000)
}

func closedFor(mostPercent float64) bound {
	return atMost("percent of the time that the gate is closed", mostPercent, (*zooOutcome).closedPercent)
}

// settledWithin wants every bad event accepted or set aside within a time.
func settledWithin(most time.Duration) bound {
	return atMost("seconds until a bad event is accepted or set aside", most.Seconds(), func(o *zooOutcome) float64 { return o.waitAside.Seconds() })
}

// rateBetween is that of good events in percent of the offered between two parts of the length.
func rateBetween(least float64, from, to, of int) bound {
	return atLeast(fmt.Sprintf("percent of the offered rate from %d/%d of the time on", from, of), least, func(o *zooOutcome) float64 {
		a, b := int(o.part(from, of)/time.Second), int(o.part(to, of)/time.Second)
		n := 0
		for _, s := range o.seconds[a:b] {
			n += s.accepted
		}
		return 100 * float64(n) / (float64(b-a) * float64(o.row.lot) / o.row.every.Seconds())
	})
}

// postsOf are those that were sent between two parts of the length.
func (o *zooOutcome) postsOf(from, to, of int, is func(post) bool) (posts []post) {
	for _, q := range o.posts {
		if q.at >= o.part(from, of) && q.at < o.part(to, of) && (is == nil || is(q)) {
			posts = append(posts, q)
		}
	}
	return posts
}

func wasAccepted(q post) bool { return !q.failed }

func requestsPerBatch(most float64, from, of int) bound {
	return atMost("requests per accepted batch", most, func(o *zooOutcome) float64 {
		return float64(len(o.postsOf(from, of, of, nil))) / float64(max(1, len(o.postsOf(from, of, of, wasAccepted))))
	})
}

// notSmaller wants batches as large as the lots in the last quarter.
func notSmaller() bound {
	return atLeast("events in an accepted batch at the end, in percent of what comes at once", 90, func(o *zooOutcome) float64 {
		n := 0
		posts := o.postsOf(3, 4, 4, wasAccepted)
		for _, q := range posts {
			n += q.events
		}
		return 100 * float64(n) / float64(max(1, len(posts)*o.row.lot))
	})
}

// refusedFrom is the part of the requests that are refused from then on.
func refusedFrom(mostPercent float64, learnt time.Duration) bound {
	return atMost("percent of the requests refused once the size is learnt", mostPercent, func(o *zooOutcome) float64 {
		n, failed := 0, 0
		for _, q := range o.posts {
			if q.at >= learnt && q.at < o.length {
				n++
				if q.failed {
					failed++
				}
			}
		}
		return 100 * float64(failed) / float64(max(1, n))
	}).long()
}

// flat wants the memory held between two parts of the length within 3 MB.
func flat(from, to, of int) bound {
	return atMost("MB by which the memory held changes", 3, func(o *zooOutcome) float64 {
		var all []int
		for _, s := range o.seconds[int(o.part(from, of)/time.Second)+10 : int(o.part(to, of)/time.Second)] {
			all = append(all, s.held)
		}
		return float64(slices.Max(all)-slices.Min(all)) / 1e6
	})
}

// probesOnly wants few requests while everything fails: some before the gate closes,
// then one for each back-off.
func probesOnly(from, to, of int) []bound {
	return []bound{
		atMost("requests that fail before the gate is closed", 50, func(o *zooOutcome) float64 {
			return float64(len(o.postsOf(from, to, of, func(q post) bool { return q.failed && !q.closed })))
		}),
		atMost("probes in percent of one for each back-off", 100, func(o *zooOutcome) float64 {
			// The back-off doubles from InitialBackoff on; a fifth of each is left to chance.
			down := o.part(to, of) - o.part(from, of)
			return 100 * float64(len(o.postsOf(from, to, of, func(q post) bool { return q.closed }))) / (8 + down.Seconds()/(o.cfg.MaxBackoff.Seconds()*0.8))
		}),
	}
}

// fullRateAfter wants as many events accepted in a second as come in one, soon after
// the receiver is up again.
func fullRateAfter(most time.Duration, up, of int) bound {
	return atMost("seconds until the full rate is back", most.Seconds(), func(o *zooOutcome) float64 {
		from := int(o.part(up, of) / time.Second)
		for i, s := range o.seconds[from:] {
			if s.accepted >= o.row.lot {
				return float64(i)
			}
		}
		return float64(len(o.seconds))
	})
}

// lotsWithin wants that part of the lots, of those from a time on, to have arrived
// within a time.
func lotsWithin(percent int, most, from time.Duration) bound {
	return atMost(fmt.Sprintf("seconds in which %d %% of the lots arrive", percent), most.Seconds(), func(o *zooOutcome) float64 {
		lots := map[int32]time.Duration{}
		for _, e := range o.events[:o.measured] {
			took := time.Duration(e.took-e.born) * time.Millisecond
			if e.got == 0 {
				took = o.now()
			}
			if time.Duration(e.born)*time.Millisecond >= from {
				lots[e.born] = max(lots[e.born], took)
			}
		}
		var all []time.Duration
		for _, d := range lots {
			all = append(all, d)
		}
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return all[max(0, (len(all)*percent+99)/100-1)].Seconds()
	}).long()
}

func honoured() bound {
	return atMost("requests sent earlier than the receiver asked", 0, func(o *zooOutcome) float64 { return float64(o.tooEarly) })
}

// repeatsAsTheyWere is for a receiver that drops what it has already, if it is the same.
func repeatsAsTheyWere() bound {
	return atLeast("percent of the repeats that are the same body", 50, func(o *zooOutcome) float64 {
		n, same := 0, 0
		for _, q := range o.posts {
			if q.repeated {
				n++
				if q.same {
					same++
				}
			}
		}
		return 100 * float64(same) / float64(max(1, n))
	})
}

// zooRows are all rows.
func zooRows() []*zooRow {
	var rows []*zooRow
	add := func(r zooRow) { rows = append(rows, &r) }

	add(zooRow{name: "clean", receiver: failsOn(resets, func(post) bool { return false }), length: 10 * time.Minute, underRace: true,
		bounds: []bound{rateAtLeast(99), waitAtMost(2 * time.Second), closedFor(0), requestsPer1000(3)}})

	// Events that are never answered.
	for _, w := range never {
		add(zooRow{name: "1 in 50,000: " + w.name, receiver: failsOn(w, hasBad), bad: oneOfEach(50_000), length: 10 * time.Minute, tail: hour, grace: 35 * time.Second,
			bounds: []bound{rateAtLeast(99).long(), waitAtMost(5 * time.Second)}})
		add(zooRow{name: "1 in 100,000: " + w.name + ", one request", receiver: failsOn(w, hasBad), bad: oneOfEach(100_000), length: 10 * time.Minute, tail: hour, short: 210 * time.Second,
			config: oneRequest, grace: 35 * time.Second,
			bounds: []bound{rateAtLeast(99), waitAtMost(35 * time.Second)}})
		// Sixty such events keep the slot that suspects have busy for hours, and their fellows wait.
		add(zooRow{name: "1 in 5,000: " + w.name, receiver: failsOn(w, hasBad), bad: oneIn(5_000), length: 10 * time.Minute, tail: hour, leaves: true,
			bounds: []bound{rateAtLeast(70).long()}})
		for _, one := range []bool{false, true} {
			r := zooRow{name: "ten first: " + w.name, receiver: failsOn(w, hasBad), bad: func(n int, _ uint64) bool { return n < 500 && n%50 == 7 },
				length: hour, tail: hour, bounds: []bound{waitAtMost(5 * time.Second), settledWithin(hour).long()}}
			if one {
				// A quarter of the only slot's time is not enough to be certain of ten in an hour.
				r.name += ", one request"
				r.config, r.bounds, r.leaves = oneRequest, []bound{waitAtMost(35 * time.Second)}, true
			}
			add(r)
		}
	}

	// Sixty events of 1.2 MB where 1 MiB is the limit.
	const firstLarge = 20 * 500
	for _, layout := range []struct {
		name string
		is   func(i, inChunk int) bool // the event's place since firstLarge, and in its chunk
	}{
		{"one chunk, in a row", func(i, _ int) bool { return i < 60 }},
		{"one chunk, between small ones", func(i, _ int) bool { return i < 480 && i%8 == 3 }},
		{"six chunks, in a row", func(i, at int) bool { return i < 6*500 && at < 10 }},
		{"sixty chunks, between small ones", func(i, at int) bool { return i < 60*500 && at == 250 }},
	} {
		for _, w := range []way{answers(413), answers(400)} {
			add(zooRow{name: "1.2 MB in " + layout.name + ": " + w.name, receiver: failsOn(w, func(q post) bool { return q.bytes > 1<<20 }),
				bad:     func(n int, _ uint64) bool { return n >= firstLarge && layout.is(n-firstLarge, n%500) },
				badSize: 1_200_000, length: 16 * time.Minute, tail: hour, short: 3 * time.Minute, awaitsBad: *zooFull, underRace: layout.name == "six chunks, in a row",
				bounds: []bound{rateAtLeast(99), waitAtMost(30 * time.Second), settledWithin(15 * time.Minute).long()}})
		}
	}

	// Events that are refused.
	for _, share := range []struct {
		name     string
		oneIn    int
		requests float64
	}{{"0.1", 1000, 30}, {"1", 100, 170}, {"5", 20, 550}} {
		for _, length := range []time.Duration{10 * time.Minute, hour} {
			add(zooRow{name: fmt.Sprintf("400 to %s %%, %v min", share.name, length.Minutes()), receiver: failsOn(answers(400), hasBad), bad: oneIn(share.oneIn),
				length: length, tail: hour, underRace: share.name == "1" && length != hour,
				bounds: []bound{rateAtLeast(95), requestsPer1000(share.requests), closedFor(2).long()}})
		}
	}
	for _, code := range []int{403, 406, 422, 500} {
		add(zooRow{name: fmt.Sprintf("%d to 1 %%", code), receiver: failsOn(answers(code), hasBad), bad: oneIn(100), length: 10 * time.Minute, tail: hour,
			bounds: []bound{rateAtLeast(95), requestsPer1000(170), closedFor(2).long()}})
	}

	// One bad server of three.
	for _, w := range []way{answers(500), answers(400), answers(403), resets, noAnswer} {
		for _, onset := range []bool{false, true} {
			for _, lot := range []int{500, 1} {
				r := zooRow{name: fmt.Sprintf("a third: %s, %d a second", w.name, lot), lot: lot, length: 70 * time.Minute, tail: hour, short: 210 * time.Second,
					underRace: w.name == "500" && !onset && lot == 500}
				from := 0
				if onset {
					from = 1
					r.name += ", after ten minutes"
				}
				r.receiver = failsAThird(w, from, 7)
				r.bounds = []bound{requestsPerBatch(1.7, from, 7), closedFor(0.1), notSmaller()}
				if w.name != noAnswer.name {
					r.bounds = append(r.bounds, rateAtLeast(95))
				} else {
					r.leaves = lot == 500 // it takes less than what comes
				}
				add(r)
			}
		}
	}

	// Events that hurt others.
	two := func(n int, _ uint64) bool { return n == 30_123 || n == 35_400 }
	refusing := way{"refused", reply{after: time.Millisecond, err: errRefused}}
	for _, down := range []time.Duration{5 * time.Second, 20 * time.Second} {
		add(zooRow{name: fmt.Sprintf("crashes for %v", down), receiver: bansAfterBad(resets, refusing, down), bad: two, length: hour, tail: hour,
			bounds: []bound{rateBetween(95, 1, 2, 2).long()}})
	}
	add(zooRow{name: "banned for 60 s", receiver: bansAfterBad(answers(403), answers(403), time.Minute), bad: two, length: hour, tail: hour,
		bounds: []bound{rateBetween(95, 1, 2, 2).long()}})
	add(zooRow{name: "three bad ones of 1 % add up", receiver: failsOn(answers(403), func(q post) bool { return q.bad >= 3 }), bad: oneIn(100), length: 30 * time.Minute, tail: hour,
		bounds: []bound{rateBetween(95, 1, 2, 2).long()}})
	for _, code := range []int{400, 500} {
		add(zooRow{name: fmt.Sprintf("%d to half, 1 a second", code), receiver: failsOn(answers(code), hasBad), bad: oneIn(2), lot: 1, length: hour, tail: hour,
			bounds: []bound{rateAtLeast(90).long(), requestsPer1000(6000)}})
	}

	// Random failures with a size limit.
	add(zooRow{name: "half of all fail, 400 above 120 kB, 8,000 at once", lot: 8000, once: true, length: 90 * time.Second, mayFail: 0.1,
		receiver: func(p *play) func(post) reply {
			return func(q post) reply {
				if p.rnd.IntN(2) == 0 {
					return []reply{refuses(askedToWait(time.Second)), refuses(errReset), refuses(status(500))}[p.rnd.IntN(3)]
				}
				if q.bytes > 120_000 {
					return refuses(status(400))
				}
				return takes()
			}
		},
		bounds: []bound{rateAtLeast(97), waitAtMost(5 * time.Minute),
			atMost("requests", 600, func(o *zooOutcome) float64 { return float64(len(o.posts)) }),
			atMost("log lines", 60, func(o *zooOutcome) float64 { return float64(o.log.lines) })}})

	// Size limits.
	for _, limit := range []struct {
		name  string
		bytes int
		lot   int
		every time.Duration
	}{{"20 kB", 20_000, 0, 0}, {"120 kB", 120_000, 0, 0}, {"900 kB", 900_000, 2800, 5600 * time.Millisecond}} {
		for _, w := range []struct {
			way
			learnt time.Duration
		}{
			{answers(413), 2 * time.Minute}, {answers(400), 2 * time.Minute}, {answers(500), 2 * time.Minute}, {resets, 2 * time.Minute},
			{way{"504 after 10 s", reply{10 * time.Second, status(504), false}}, 15 * time.Minute}, {noAnswer, 45 * time.Minute},
		} {
			add(zooRow{name: "above " + limit.name + ": " + w.name, receiver: failsOn(w.way, func(q post) bool { return q.bytes > limit.bytes }),
				lot: limit.lot, every: limit.every, length: hour + w.learnt, tail: hour,
				bounds: []bound{refusedFrom(3, w.learnt)}})
			if limit.bytes != 20_000 {
				continue
			}
			add(zooRow{name: "above " + limit.name + ": " + w.name + ", half an hour", length: 90 * time.Minute, tail: hour,
				receiver: func(p *play) func(post) reply {
					return func(q post) reply {
						if q.bytes > limit.bytes && q.at < p.part(1, 3) {
							return w.reply
						}
						return takes()
					}
				},
				bounds: []bound{atLeast("kB of the largest body, an hour after the receiver takes any", 300, func(o *zooOutcome) float64 {
					most := 0
					for _, q := range o.postsOf(9, 10, 10, wasAccepted) {
						most = max(most, q.bytes)
					}
					return float64(most) / 1e3
				}).long()}})
		}
	}
	add(zooRow{name: "50 ms an event, gives up at 10 s", lot: 1200, every: 30 * time.Second, length: hour,
		receiver: func(*play) func(post) reply {
			return func(q post) reply {
				if d := time.Duration(q.events) * 50 * time.Millisecond; d <= 10*time.Second {
					return reply{after: d}
				}
				return reply{after: 10 * time.Second, err: status(504)}
			}
		},
		bounds: []bound{lotsWithin(90, 25*time.Second, 15*time.Minute), lotsWithin(100, 5*time.Minute, 0)}})

	// Outages.
	add(zooRow{name: "down for ten minutes: connection refused", receiver: failsWhile(refusing, 1, 11, 15), length: 15 * time.Minute, tail: hour, underRace: true,
		bounds: append(probesOnly(1, 11, 15), flat(1, 11, 15), fullRateAfter(35*time.Second, 11, 15))})
	add(zooRow{name: "down for an hour: 503", receiver: failsWhile(answers(503), 1, 61, 90), length: 90 * time.Minute, tail: hour,
		bounds: append(probesOnly(1, 61, 90), flat(1, 61, 90), fullRateAfter(35*time.Second, 61, 90))})
	add(zooRow{name: "up and down every 5 s", length: 30 * time.Minute, tail: hour,
		receiver: failsOn(refusing, func(q post) bool { return int(q.at/(5*time.Second))%2 == 1 }),
		bounds: []bound{atMost("requests of one outage before the gate is closed", 50, func(o *zooOutcome) float64 {
			outages := map[time.Duration]int{}
			most := 0
			for _, q := range o.posts {
				if q.failed && !q.closed {
					outages[q.at/(5*time.Second)]++
					most = max(most, outages[q.at/(5*time.Second)])
				}
			}
			return float64(most)
		})}})
	add(zooRow{name: "404 to everything for a day", receiver: failsWhile(answers(404), 0, 2, 1), lot: 30, every: time.Minute, length: 24 * hour, tail: time.Second, leaves: true,
		bounds: append(probesOnly(0, 1, 1), flat(0, 1, 1))})
	storing := way{"500", reply{after: quick, err: status(500), stores: true}}
	add(zooRow{name: "stores, then answers 500, for ten minutes", receiver: failsWhile(storing, 1, 11, 15), length: 15 * time.Minute, tail: hour, stores: true,
		bounds: []bound{repeatsAsTheyWere()}})
	add(zooRow{name: "stores, then answers 500, a third", receiver: failsAThird(storing, 0, 1), length: 10 * time.Minute, tail: hour, stores: true,
		bounds: []bound{repeatsAsTheyWere()}})

	// Slow answers.
	add(zooRow{name: "20 s an answer, 9 a second", lot: 9, length: 3 * hour, mode: modeBatch,
		receiver: func(*play) func(post) reply {
			return func(post) reply { return reply{after: 20 * time.Second} }
		},
		bounds: []bound{waitAtMost(time.Minute), requestsPer1000(40),
			atMost("bytes held for each that is pending", 3, func(o *zooOutcome) (most float64) {
				for _, s := range o.seconds {
					if s.pending > 20_000 {
						most = max(most, float64(s.held)/float64(s.pending))
					}
				}
				return most
			})}})

	// Retry-After.
	for _, asks := range []struct {
		name string
		wait time.Duration
	}{{"20 s", 20 * time.Second}, {"an hour", hour}, {"-5 s", -5 * time.Second}} {
		w := way{"503", refuses(askedToWait(asks.wait))}
		add(zooRow{name: "Retry-After " + asks.name + ": down for ten minutes", receiver: failsWhile(w, 1, 11, 15), length: 15 * time.Minute, tail: hour,
			bounds: append(probesOnly(1, 11, 15), honoured(), fullRateAfter(35*time.Second, 11, 15))})
		add(zooRow{name: "Retry-After " + asks.name + ": a third", receiver: failsAThird(w, 0, 1), length: 10 * time.Minute, tail: hour,
			bounds: []bound{honoured()}})
		add(zooRow{name: "Retry-After " + asks.name + ": above 120 kB", receiver: failsOn(w, func(q post) bool { return q.bytes > 120_000 }), length: 30 * time.Minute, tail: hour,
			bounds: []bound{honoured()}})
	}

	// A stop once the receiver is up again.
	for _, w := range []way{refusing, answers(503), resets} {
		add(zooRow{name: "a stop after an outage: " + w.name, receiver: failsWhile(w, 1, 3, 4), length: 4 * time.Minute, short: 4 * time.Minute, leaves: true,
			stopAfter: func(p *play) time.Duration { return p.part(3, 4) + time.Duration(p.rnd.Int64N(int64(40*time.Second))) },
			bounds: []bound{
				atMost("seconds that the stop takes", 2, func(o *zooOutcome) float64 { return o.stopTook.Seconds() }),
				atMost("events that are given up", 0, func(o *zooOutcome) float64 { return float64(o.stats.GivenUp) }),
			}})
	}

	for _, r := range rows {
		r.lot, r.every, r.size = cmp.Or(r.lot, 500), cmp.Or(r.every, time.Second), cmp.Or(r.size, 700)
		r.short, r.tail = cmp.Or(r.short, 2*time.Minute), cmp.Or(r.tail, 10*time.Minute)
	}
	return rows
}
