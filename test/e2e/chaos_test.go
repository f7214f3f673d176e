package e2e

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file is the table of failures: whatever a receiver does, every event arrives
// unaltered, in bounded time and with a bounded number of requests, and only one
// that stored what it then refused gets an event twice.

// trial is one failure in one mode and form.
type trial struct {
	*testing.T
	name  string
	e     engine
	mode  string
	form  string // raw; parsed: by Fluent Bit's JSON parser
	dir   string
	log   string
	lines []string
	write func()    // from prepare
	begin time.Time // of the host

	during    time.Duration // of the load
	pieces    int           // of the load
	patience  time.Duration // bound on the time from the end of both failure and load to the last event
	timeout   time.Duration // Request_Timeout; 0: requestTimeout
	refused   int           // events that the receiver refuses to the end
	duplicate bool          // the receiver stored what it refused
}

// failures are the rows of the table.
var failures = []struct {
	name string
	run  func(c *trial)
}{
	{"connections refused", refusedConnections},
	{"reset before the body is read", window{as: "cut", args: []string{"-fail-status", "cut-before"}}.run},
	{"reset after the body is read", window{as: "cut", args: []string{"-fail-status", "cut-after"}}.run},
	{"500", window{as: "500"}.run},
	{"503 with Retry-After: 2", window{as: "503", retryAfter: "2", asked: 2 * time.Second, longest: 3 * time.Second, told: `retry_in=2s`}.run},
	{"503 with Retry-After: a date", window{as: "503", retryAfter: "date"}.run},
	{"503 with Retry-After: nonsense", window{as: "503", retryAfter: "soon", told: `retry_in=(8\d|9\d|100)ms`}.run},
	{"503 with Retry-After: an hour", window{as: "503", retryAfter: "3600", asked: longestBackoff, told: `retry_in=500ms`}.run},
	{"429", window{as: "429"}.run},
	{"404", window{as: "404"}.run},
	{"401 until the token is renewed", renewedToken},
	{"no answer", window{as: "hang", timeout: unanswered}.run},
	{"an answer byte by byte", window{as: "drip", timeout: unanswered}.run},
	{"413 above 20 kB", func(c *trial) { tooLarge(c, 413) }},
	{"400 above 20 kB", func(c *trial) { tooLarge(c, 400) }},
	{"one event of 400 answered 400", func(c *trial) { oneRefused(c, 400) }},
	{"one event of 400 answered 500", func(c *trial) { oneRefused(c, 500) }},
	{"one backend of three answers 500", func(c *trial) { oneBackendOfThree(c, 500) }},
	{"one backend of three answers 400", func(c *trial) { oneBackendOfThree(c, 400) }},
	{"400 to everything from the start", window{as: "400", first: true}.run},
	{"404 to everything from the start", window{as: "404", first: true}.run},
	{"413 to everything from the start", window{as: "413", first: true}.run},
	{"the certificate expires", expiredCertificate},
	{"the name does not resolve", unresolved},
	{"the address moves", moved},
	{"stores and then answers 500", storesAndFails},
	{"every third answer is lost", lostAnswers},
	{"never answers one event of 2000", neverAnswersOne},
	{"403 to one event", firewalledOne},
	{"a mixed receiver", mixedReceiver},
	{"a slow gateway", slowGateway},
}

// atOnce is how many trials run at once: they mostly wait.
const atOnce = 8

func TestEveryFailureLosesNothing(t *testing.T) {
	t.Parallel()
	type host struct {
		name, form string
		e          engine
	}
	hosts := []host{{"bundled host", "raw", bundledHost{}}}
	if bench {
		hosts = append(hosts, host{"fluent-bit", "raw", realFluentBit{}}, host{"fluent-bit", "parsed", realFluentBit{}})
	}
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, f := range failures {
		for _, mode := range []string{"blocking", "batch"} {
			for _, h := range hosts {
				free <- struct{}{}
				running.Go(func() {
					defer func() { <-free }()
					t.Run(fmt.Sprintf("%s/%s/%s/%s", f.name, mode, h.name, h.form), func(t *testing.T) {
						if h.name == "fluent-bit" && fluentBit == "" {
							t.Skip("no Fluent Bit here: set FLUENT_BIT to test on one")
						}
						dir := t.TempDir()
						f.run(&trial{T: t, name: f.name, e: h.e, mode: mode, form: h.form, dir: dir, log: filepath.Join(dir, "audit.log"), patience: 10 * time.Second})
					})
				})
			}
		}
	}
	running.Wait()
	if !bench {
		t.Run("fluent-bit", func(t *testing.T) {
			t.Skip("on a real Fluent Bit it takes five minutes: run make chaos")
		})
	}
}

// What is set in every trial. The times are short so that a failure has several
// back-offs.
const (
	initialBackoff = 100 * time.Millisecond
	longestBackoff = 500 * time.Millisecond
	concurrent     = 4

	// A receiver that stores for longer than that has the events twice, and a busy
	// machine may hold one up for a second.
	requestTimeout = 5 * time.Second

	// The same where no answer comes: short enough for several in the time that lasts.
	unanswered = 2 * time.Second
)

// prepare makes the load: lines that come in pieces for about as long.
func (c *trial) prepare(lines []string, pieces int, during time.Duration, keys string) *setup {
	c.Helper()
	c.lines, c.during, c.pieces = numbered(lines), during, pieces
	if keys != "" {
		keys = "|" + keys
	}
	s := &setup{
		dir: c.dir, log: c.log, workers: 1, grace: 2,
		keys: fmt.Sprintf("Mode %s|Initial_Backoff %v|Max_Backoff %v|Max_Concurrent_Requests %d|Request_Timeout %v|Flush_Timeout 1s|Drain_Timeout 2s|Batch_Max_Wait 200ms", c.mode, initialBackoff, longestBackoff, concurrent, cmp.Or(c.timeout, requestTimeout)) + keys,
	}
	if c.form == "parsed" {
		s.timeFormat = parserTime
	}
	c.write = load(c.T, c.e, c.log, c.lines, s, (len(lines)+pieces-1)/pieces, during/time.Duration(pieces))
	return s
}

// usual is the load of most trials. The failure is in the middle of it.
func (c *trial) usual(keys string) *setup {
	c.Helper()
	if bench {
		return c.prepare(auditLog(c.T, "metadata"), 50, 15*time.Second, keys)
	}
	return c.prepare(auditLog(c.T, "metadata")[:400], 20, 2*time.Second, keys)
}

func (c *trial) receive(args ...string) *receiver {
	c.Helper()
	return c.receiveAt("", args...)
}

func (c *trial) receiveAt(address string, args ...string) *receiver {
	c.Helper()
	if c.form == "parsed" {
		args = append(args, "-semantic")
	}
	return receive(c.T, c.dir, c.log, address, args...)
}

// result is what a trial came to.
type result struct {
	verdict
	requests int
	took     time.Duration // from the start of the host to the last event
}

func (c *trial) start(s *setup) *process {
	c.Helper()
	c.begin = time.Now()
	return c.e.start(c.T, *s)
}

var account = regexp.MustCompile(`stopped.* requests=(\d+) failed_requests=(\d+)`)

// finish waits for all events, ends both sides and asserts the verdict. healed says
// when the failure was over.
func (c *trial) finish(p *process, r *receiver, healed time.Time) result {
	c.Helper()
	until(c.T, "all events are stored", func() bool {
		if p.ended() {
			c.Fatal("the host has ended")
		}
		return r.distinct() >= len(c.lines)-c.refused
	})
	last := time.Now()
	res := result{took: last.Sub(c.begin)}
	if written := c.begin.Add(c.during); written.After(healed) {
		healed = written
	}
	late := last.Sub(healed)
	if late > c.patience {
		c.Errorf("the last event arrived %v after failure and load were over, want at most %v", late, c.patience)
	}
	p.stop()
	res.verdict = r.verdict()
	res.requests = r.counted("requests")
	c.Logf("%+v, the last event %v after failure and load were over", res, late.Round(time.Millisecond))
	v := res.verdict
	if v.in != len(c.lines) || v.lost != c.refused || v.altered != 0 || v.duplicated != 0 && !c.duplicate {
		c.Errorf("want %d events, none lost or altered, no duplicate unless it was stored before it was refused", len(c.lines))
	}
	if c.refused == 0 && !strings.Contains(p.String(), " rejected=0 ") {
		c.Error("events were set aside")
	}
	if _, ok := c.e.(realFluentBit); ok {
		res.lost -= c.refused
		record(c.T, tableRow{c.name, c.mode, c.form, res})
	}
	return res
}

// mostProbes is how many probes a failure of that length can see at most, at waits
// that double from first to longest and are a fifth shorter by chance.
func mostProbes(during, first, longest time.Duration) (n int) {
	for at := time.Duration(0); ; n++ {
		if at += min(first<<n, longest) * 4 / 5; at > during {
			return n
		}
	}
}

// beforeDown is how many requests can fail until the webhook is known to be down: eleven in
// a row while nothing is known of it, those under way, and the parts of a batch that seemed to be at
// fault.
const beforeDown = concurrent + 16

// window is a receiver that fails for a while in the middle of the load.
type window struct {
	as         string // how its answers are counted; without args: their status too
	args       []string
	retryAfter string        // "date": when half of it is over
	asked      time.Duration // what becomes of retryAfter; 0: initialBackoff
	longest    time.Duration // Max_Backoff; 0: longestBackoff
	timeout    time.Duration // Request_Timeout; 0: requestTimeout
	told       string        // of the log
	first      bool          // it fails from the start
	tapped     func(*tap)    // gets the tap before the receiver, when all is over
	duplicate  bool
}

func (w window) run(c *trial) {
	from, length := 400*time.Millisecond, 1200*time.Millisecond
	if bench {
		from, length = 4*time.Second, 8*time.Second
	}
	if w.first {
		from = 0
	}
	c.timeout = w.timeout
	s := c.usual("")
	first, longest := max(initialBackoff, w.asked), longestBackoff
	if w.longest > 0 {
		longest = w.longest
		s.keys = strings.Replace(s.keys, "Max_Backoff "+longestBackoff.String(), "Max_Backoff "+longest.String(), 1)
	}
	args := []string{"-fail-from", from.String(), "-fail-for", length.String()}
	if !slices.Contains(w.args, "-fail-status") {
		args = append(args, "-fail-status", w.as)
	}
	switch w.retryAfter {
	case "":
	case "date":
		args = append(args, "-retry-after", time.Now().Add(from+length/2).UTC().Format(http.TimeFormat))
	default:
		args = append(args, "-retry-after", w.retryAfter)
	}
	c.duplicate = w.duplicate
	c.patience += longest
	begin := time.Now()
	r := c.receive(append(args, w.args...)...)
	s.url = r.url
	if w.tapped != nil {
		tap := newTap(c.T, r.url, through)
		defer w.tapped(tap)
		s.url = tap.URL
	}
	p := c.start(s)
	c.write()
	c.finish(p, r, begin.Add(from+length))
	n := r.counted(w.as)
	bound := beforeDown + mostProbes(length, first, longest)
	if w.as == "413" {
		bound += 75 // half of the halves are expected to fail: some sixty that do are strange
	}
	if n == 0 || n > bound {
		c.Errorf("%d requests failed in %v, want 1 to %d", n, length, bound)
	}
	if !regexp.MustCompile(w.told).MatchString(p.String()) {
		c.Errorf("the log does not say %s", w.told)
	}
}

func refusedConnections(c *trial) {
	s := c.usual("")
	length := 1200 * time.Millisecond
	if bench {
		length = 8 * time.Second
	}
	r := c.receive()
	s.url = r.url
	p := c.start(s)
	var writer sync.WaitGroup
	writer.Go(c.write)
	until(c.T, "some events are stored", func() bool { return r.stored() > len(c.lines)/10 })
	r.stop()
	time.Sleep(length) // this is the failure itself
	r = c.receiveAt(r.address())
	healed := time.Now()
	writer.Wait()
	c.finish(p, r, healed)
	m := account.FindStringSubmatch(p.String())
	if m == nil {
		c.Fatal("no account")
	}
	n, _ := strconv.Atoi(m[2])
	// A request under way when the receiver stopped may have failed before.
	if bound := beforeDown + mostProbes(length+500*time.Millisecond, initialBackoff, longestBackoff); n == 0 || n > bound {
		c.Errorf("%d requests failed, want 1 to %d", n, bound)
	}
}

func renewedToken(c *trial) {
	const old, fresh = "eyJ0b2tlbiI6MX0", "eyJ0b2tlbiI6Mn0"
	d := &delivery{T: c.T, e: c.e, dir: c.dir}
	s := c.usual("Bearer_Token_File " + d.file("token", old))
	wanted := d.file("wanted", old)
	r := c.receive("-bearer-token-file", wanted)
	s.url = r.url
	p := c.start(s)
	var writer sync.WaitGroup
	writer.Go(c.write)
	until(c.T, "some events are stored", func() bool { return r.stored() > len(c.lines)/10 })
	d.file("wanted", fresh)
	begin := time.Now()
	until(c.T, "the token is refused", func() bool { return strings.Contains(p.String(), "answered 401") })
	until(c.T, "it was refused for a while", func() bool { return time.Since(begin) > time.Second })
	d.file("token", fresh)
	length := time.Since(begin)
	writer.Wait()
	c.finish(p, r, time.Now())
	if n, bound := r.counted("401"), beforeDown+mostProbes(length+longestBackoff, initialBackoff, longestBackoff); n == 0 || n > bound {
		c.Errorf("%d requests answered 401 in %v, want 1 to %d", n, length, bound)
	}
}

// tooLarge is a receiver that refuses larger bodies, in its own way.
func tooLarge(c *trial, status int) {
	const limit = 20_000
	// In fewer pieces: each is too large.
	lines := auditLog(c.T, "metadata")
	s := c.prepare(lines, 20, 2*time.Second, "")
	r := c.receive("-max-body", strconv.Itoa(limit), "-max-body-status", strconv.Itoa(status))
	s.url = r.url
	p := c.start(s)
	c.write()
	c.patience = 20 * time.Second
	res := c.finish(p, r, time.Now())
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	// A limit that is found by halving is half of what is taken in the worst case.
	least := (size + limit - 1) / limit
	if bound := 4*least + 40; res.requests > bound || r.counted(strconv.Itoa(status)) == 0 {
		c.Errorf("%d requests, %d of them refused, want at most %d for %d bodies' worth", res.requests, r.counted(strconv.Itoa(status)), bound, least)
	}
	c.Logf("%d refused, at least %d bodies", r.counted(strconv.Itoa(status)), least)
}

// numbered gives each event an auditID of its own.
func numbered(lines []string) (all []string) {
	for i, line := range lines {
		all = append(all, strings.Replace(line, `"auditID":"`, fmt.Sprintf(`"auditID":"%06d-`, i), 1))
	}
	return all
}

// oneRefused has one event in 400 that the receiver does not accept.
func oneRefused(c *trial, status int) {
	const size, pieces = 400, 5
	s := c.prepare(auditLog(c.T, "metadata")[:size*pieces], pieces, 500*time.Millisecond, fmt.Sprintf("Batch_Max_Size %d", size))
	// Other batches are accepted before the first is tried again: else nothing says
	// that it is the batch.
	s.keys = strings.Replace(s.keys, "Initial_Backoff "+initialBackoff.String(), "Initial_Backoff 300ms", 1)
	const bad = size + size/3
	id := auditIDs.FindStringSubmatch(c.lines[bad])[1]
	c.refused = 1
	r := c.receive("-fail-match", `"auditID":"`+id+`"`, "-fail-status", strconv.Itoa(status))
	tap := newTap(c.T, r.url, through)
	s.url = tap.URL
	p := c.start(s)
	c.write()
	c.finish(p, r, time.Now())

	requests := tap.all()
	first := slices.IndexFunc(requests, func(r tapped) bool { return slices.Contains(r.ids, id) })
	if first < 0 {
		c.Fatal("the event was not sent")
	}
	beside := map[string]bool{}
	for _, id := range requests[first].ids {
		beside[id] = true
	}
	extra, alone := -1, false
	for _, r := range requests {
		switch {
		case len(r.ids) == 1 && r.ids[0] == id:
			if !alone {
				extra++
			}
			alone = true
		case slices.ContainsFunc(r.ids, func(id string) bool { return beside[id] }):
			extra++
		}
	}
	// Two tries of each part and its brother, and of the whole.
	bound := 4*bits.Len(uint(len(beside)-1)) + 4
	c.Logf("%d extra requests for one of %d", extra, len(beside))
	if !alone || extra > bound {
		c.Errorf("%d extra requests for one event of %d, found: %v, want at most %d", extra, len(beside), alone, bound)
	}
	if !strings.Contains(p.String(), "the webhook does not accept this event; it is tried again and holds up no other event="+id+"/") {
		c.Error("the log does not name the event")
	}
	if !strings.Contains(r.String(), `lost: "`+id+`"`) {
		c.Error("it is another event that was not delivered")
	}
}

// oneBackendOfThree is a balancer with a bad backend.
func oneBackendOfThree(c *trial, status int) {
	s := c.usual("")
	r := c.receive()
	tap := newTap(c.T, r.url, func(n int, _ tapped, _ []tapped) (bool, int) {
		if n%3 == 1 {
			return false, status
		}
		return true, 0
	})
	s.url = tap.URL
	p := c.start(s)
	c.write()
	c.finish(p, r, time.Now())
	total, accepted := 0, 0
	for _, r := range tap.all() {
		total++
		if r.status == 200 {
			accepted++
		}
	}
	c.Logf("%d requests, %d accepted", total, accepted)
	// Of three tries in a row one fails at most, so that a batch is split rarely.
	if bound := 3 * c.pieces; accepted > bound {
		c.Errorf("the events came in %d batches, want at most %d", accepted, bound)
	}
	if strings.Contains(p.String(), "the webhook is down") {
		c.Error("the webhook counts as down")
	}
}

// storesAndFails is a receiver that stores what it answers 500 to. It can drop the
// repeats if they are byte for byte what it has.
func storesAndFails(c *trial) {
	window{as: "500", args: []string{"-store-on-fail"}, duplicate: true, tapped: func(tap *tap) {
		bodies := map[[32]byte][]string{}
		of := map[string]map[[32]byte]bool{}
		for _, r := range tap.all() {
			bodies[r.sum] = r.ids
			for _, id := range r.ids {
				if of[id] == nil {
					of[id] = map[[32]byte]bool{}
				}
				of[id][r.sum] = true
			}
		}
		// Smaller probes are taken from one batch in an outage, which goes on in parts; and those
		// that failed first, when others were accepted a moment ago, may seem to be at fault.
		var parts []string
		for id, sums := range of {
			if len(sums) > 1 {
				parts = append(parts, id)
			}
		}
		largest := 0
		for _, ids := range bodies {
			largest = max(largest, len(ids))
		}
		c.Logf("%d of %d events came in different bodies", len(parts), len(of))
		if most := (concurrent + 1) * largest; len(parts) > most {
			c.Errorf("%d events came in different bodies, want those of a few batches: at most %d", len(parts), most)
		}
	}}.run(c)
}

// lostAnswers is a receiver that stores, and whose answer does not come back.
func lostAnswers(c *trial) {
	s := c.usual("")
	r := c.receive()
	fresh := 0
	tap := newTap(c.T, r.url, func(_ int, r tapped, before []tapped) (bool, int) {
		if slices.ContainsFunc(before, func(b tapped) bool { return b.sum == r.sum }) {
			return true, 0
		}
		fresh++
		if fresh%3 == 0 {
			return true, 500
		}
		return true, 0
	})
	s.url = tap.URL
	p := c.start(s)
	c.write()
	c.duplicate = true
	res := c.finish(p, r, time.Now())
	times, lost := map[[32]byte]int{}, map[[32]byte]bool{}
	want := 0
	for _, r := range tap.all() {
		times[r.sum]++
		if r.status == 500 {
			lost[r.sum] = true
			want += len(r.ids)
		}
	}
	for sum, n := range times {
		if wanted := map[bool]int{false: 1, true: 2}[lost[sum]]; n != wanted {
			c.Errorf("a body came %d times, want %d", n, wanted)
		}
	}
	if res.duplicated != want || want == 0 {
		c.Errorf("%d duplicates, want the %d events of the requests whose answer was lost", res.duplicated, want)
	}
}

func expiredCertificate(c *trial) {
	ca := newAuthority(c.T, c.dir, "ca")
	end := ca.cert.NotAfter
	ca.cert.NotAfter = time.Now().Add(2 * time.Second).Truncate(time.Second)
	expires := ca.cert.NotAfter
	short := ca.serverArgs()
	ca.cert.NotAfter = end
	s := c.prepare(auditLog(c.T, "metadata")[:400], 20, 5*time.Second, "CA_File "+ca.file) // goes on after it
	r := c.receive(short...)
	s.url = r.url
	p := c.start(s)
	var writer sync.WaitGroup
	writer.Go(c.write)
	until(c.T, "it has expired", func() bool { return time.Now().After(expires) })
	// Connections that are open go on: it takes new ones.
	r.stop()
	r = c.receiveAt(r.address(), short...)
	time.Sleep(1500 * time.Millisecond) // this is the failure itself
	r.stop()
	if n := r.counted("requests"); n != 0 || r.counted("connections") == 0 {
		c.Errorf("%d requests were made to the expired certificate on %d connections, want none on some", n, r.counted("connections"))
	}
	r = c.receiveAt(r.address(), ca.serverArgs()...)
	writer.Wait()
	c.finish(p, r, time.Now())
}
