// The zoo: receivers of all kinds (zoo_receivers_test.go), each of which the backend
// must get along with as its row says, with the settings that are shipped, played on
// simulated time with a model of Fluent Bit (zoo_engine_test.go).
//
//	go test ./batch -run Zoo -v              each row shortened, one seed: a minute
//	go test ./batch -run 'Zoo/400_1%/batch' -v -zoo.full -zoo.seed=3
//	make zoo                                 everything, an hour
//
// One more receiver is one more row.

package batch

import (
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	zooFull  = flag.Bool("zoo.full", false, "play the rows of the zoo at full length, and hold them to all their bounds")
	zooSeeds = flag.Int("zoo.seeds", 1, "with how many seeds each row is played")
	zooSeed  = flag.Uint64("zoo.seed", 1, "the first of the seeds")
	zooTable = flag.String("zoo.table", "", "the file that the table is written to, as Markdown")
)

const requestTimeout = 30 * time.Second

func shippedConfig() Config {
	return Config{
		MaxSize: 2000, MaxBytes: 1_000_000, MaxWait: time.Second,
		BufferSize: 100_000, BufferBytes: 64_000_000,
		MaxConcurrentRequests: 4,
		InitialBackoff:        time.Second, MaxBackoff: 30 * time.Second,
		SlowAfter: 4 * time.Second,
	}
}

func TestZoo(t *testing.T) {
	table := &zooResults{}
	t.Cleanup(func() { table.end(t) })
	for i, row := range zooRows() {
		if zooUnderRace && !row.underRace {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range []string{modeBlocking, modeBatch} {
				if row.mode != "" && row.mode != mode {
					continue
				}
				t.Run(mode, func(t *testing.T) {
					t.Parallel()
					seeds := *zooSeeds
					if *zooFull && row.mayFail > 0 {
						seeds = max(seeds, 10)
					}
					for seed := *zooSeed; seed < *zooSeed+uint64(seeds); seed++ {
						t.Run(fmt.Sprint(seed), func(t *testing.T) {
							t.Parallel()
							synctest.Test(t, func(t *testing.T) {
								o := playRow(t, row, mode, seed)
								t.Log(o.line())
								table.add(t, i, o)
							})
						})
					}
				})
			}
		})
	}
}

// play is one row played once.
type play struct {
	t      *testing.T
	row    *zooRow
	mode   string
	seed   uint64
	length time.Duration // while the load is measured
	start  time.Time
	b      *Backend
	cfg    Config

	mu       sync.Mutex
	rnd      *rand.Rand // the receiver's
	answer   func(post) reply
	events   []zooEvent
	measured int // the first so many events count
	numbers  [][]int32
	stopping bool

	posts    []post
	bodies   map[uint64]bool // of the posts that were stored and failed
	hash     maphash.Seed
	seconds  []second
	asideAt  map[int]time.Duration
	notYet   map[int32]time.Duration // until when an event must not be sent again, as the receiver asked
	probeNot time.Duration           // the same for all while the gate is closed
	tooEarly int
	told     uint64 // events of which the observer was told that they are accepted
	accepted uint64

	isClosed  bool
	closedAt  time.Duration
	closings  int
	closed    time.Duration
	log       zooLog
	faults    map[string]int
	imbalance bool
}

// post is one request.
type post struct {
	at, took      time.Duration
	events, bytes int
	bad           int  // of the events
	failed        bool // once it is answered
	closed        bool // it was sent while the gate was closed
	repeated      bool // an event of it was stored before
	same          bool // the body was
}

// reply is what the receiver does with a post.
type reply struct {
	after  time.Duration
	err    error // nil: it takes it
	stores bool  // although it fails
}

// second is what a second of the load was like.
type second struct {
	accepted      int // good events
	pending, held int // bytes
}

// now is the time since the start.
func (p *play) now() time.Duration { return time.Since(p.start) }

// part is that part of the length at which the load is measured.
func (p *play) part(n, of int) time.Duration { return p.length * time.Duration(n) / time.Duration(of) }

// fault notes something that must never be. Told once with the number of times.
func (p *play) faultLocked(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if p.faults == nil {
		p.faults = map[string]int{}
	}
	p.faults[what]++
}

// Send is the way to the receiver.
func (p *play) Send(ctx context.Context, body []byte) error {
	p.mu.Lock()
	numbers, i, r := p.receiveLocked(body)
	p.mu.Unlock()
	var err error
	if r.after > 0 {
		timer := time.NewTimer(min(r.after, requestTimeout))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			err = ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if err = r.err; r.after >= requestTimeout {
			err = zooTimeout{}
		}
		if err == nil || r.stores {
			p.storeLocked(numbers, err != nil)
		}
	}
	p.answeredLocked(numbers, i, err)
	p.numbers = append(p.numbers, numbers)
	return err
}

// receiveLocked reads a body and lets the receiver decide.
func (p *play) receiveLocked(body []byte) (numbers []int32, index int, r reply) {
	if k := len(p.numbers); k > 0 {
		numbers, p.numbers = p.numbers[k-1][:0], p.numbers[:k-1]
	}
	now := p.now()
	q := post{at: now, bytes: len(body), closed: p.isClosed}
	index = len(p.posts)
	p.posts = append(p.posts, q)
	if !strings.HasPrefix(string(body[:min(len(body), len(listHead))]), listHead) || !strings.HasSuffix(string(body[len(body)-min(len(body), 2):]), listTail) {
		p.faultLocked("a body is not an EventList")
		return numbers, index, reply{err: status(400)}
	}
	tooEarly := q.closed && now < p.probeNot && !p.stopping // a stop is the last occasion
	for rest := body[len(listHead):]; len(rest) > len(listTail); {
		n, bad, size, ok := readEvent(rest)
		if !ok || n >= len(p.events) || bad != p.events[n].bad || size != int(p.events[n].size) && !(size == shrunkenBytes && p.events[n].shrunk) {
			p.faultLocked("an event is altered")
			return numbers, index, reply{err: status(400)}
		}
		numbers = append(numbers, int32(n))
		if bad {
			q.bad++
		}
		tooEarly = tooEarly || len(p.notYet) > 0 && !p.stopping && now < p.notYet[int32(n)]
		q.repeated = q.repeated || p.events[n].got > 0
		rest = rest[size:]
		if rest[0] == ',' {
			rest = rest[1:]
		}
	}
	q.events = len(numbers)
	if q.bad > 0 {
		for _, n := range numbers {
			p.events[n].fellow = true
		}
	}
	if p.row.stores {
		q.same = p.bodies[maphash.Bytes(p.hash, body)]
		p.bodies[maphash.Bytes(p.hash, body)] = true
	}
	if tooEarly {
		p.tooEarly++
	}
	p.posts[index] = q
	return numbers, index, p.answer(q)
}

func (p *play) storeLocked(numbers []int32, failed bool) {
	now := int32(p.now() / time.Millisecond)
	for _, n := range numbers {
		e := &p.events[n]
		if e.got == 0 {
			e.took = now
			if !e.bad {
				p.secondLocked().accepted++
			}
		} else if !p.row.stores {
			p.faultLocked("an event is stored twice")
		}
		if e.got < 255 {
			e.got++
		}
	}
	if !failed {
		p.accepted += uint64(len(numbers))
	}
}

// answeredLocked notes what the answer asks for.
func (p *play) answeredLocked(numbers []int32, i int, err error) {
	now := p.now()
	p.posts[i].took, p.posts[i].failed = now-p.posts[i].at, err != nil
	if err == nil {
		p.probeNot = 0
		return
	}
	asked, ok := err.(askedToWait)
	wait := min(time.Duration(asked), p.cfg.MaxBackoff)
	if !ok || wait <= 0 {
		return
	}
	if p.notYet == nil {
		p.notYet = map[int32]time.Duration{}
	}
	for _, n := range numbers {
		p.notYet[n] = now + wait
	}
	if p.posts[i].closed {
		p.probeNot = now + wait
	}
}

func (p *play) secondLocked() *second {
	for len(p.seconds) <= int(p.now()/time.Second) {
		p.seconds = append(p.seconds, second{})
	}
	return &p.seconds[int(p.now()/time.Second)]
}

func (p *play) acceptedTold(ids []ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told += uint64(len(ids))
	for _, id := range ids {
		e := &p.events[id[0]]
		if e.got == 0 {
			p.faultLocked("lost: an event is told to be accepted that the receiver does not have")
		}
		if e.state != isInFlight {
			p.faultLocked("an event is told to be accepted that is not in flight")
		}
		e.state = isAccepted
	}
}

func (p *play) rejected(id ID, event []byte, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &p.events[id[0]]
	if n, _, size, ok := readEvent(event); !ok || n != int(id[0]) || size != int(e.size) || size != len(event) {
		p.faultLocked("altered: an event is not set aside as it was taken")
	}
	if !e.bad {
		p.faultLocked("an innocent event is set aside")
	}
	e.state = isAside
	p.asideAt[int(id[0])] = p.now()
	p.log.lines++
	return true
}

func (p *play) gaveUp(ev *Events, owner *Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, id := range ev.IDs() {
		e := &p.events[id[0]]
		if n, _, size, ok := readEvent(ev.Event(i)); !ok || n != int(id[0]) || size != int(e.size) && !e.shrunk {
			p.faultLocked("altered: an event is not given up as it was taken")
		}
		if e.state != isInFlight {
			p.faultLocked("an event is given up that is not in flight")
		}
		e.state = isNew
		if owner == nil {
			e.givenUp = true
			if !p.stopping {
				p.faultLocked("lost: an asynchronous event is given up before the end")
			}
		}
	}
}

func (p *play) shrink(event []byte) []byte {
	smaller := shrinkEvent(event)
	if smaller != nil {
		n, _, _, _ := readEvent(event)
		p.mu.Lock()
		p.events[n].shrunk = true
		p.mu.Unlock()
	}
	return smaller
}

func (p *play) healthChanged(from, to Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case to == Down:
		p.log.tell("down")
	case from == Down:
		p.log.tell("up")
	case to == Slow:
		p.log.tell("slow")
	}
	if p.stopping {
		return
	}
	switch {
	case to == Down:
		p.isClosed, p.closedAt, p.probeNot = true, p.now(), 0
		p.closings++
	case from == Down:
		p.closed += p.now() - p.closedAt
		p.isClosed = false
	}
}

// isBalanced says whether the account holds.
func isBalanced(s Stats) bool {
	return s.Taken == s.Accepted+s.Rejected+s.Returned+s.GivenUp+s.Pending
}

func playRow(t *testing.T, row *zooRow, mode string, seed uint64) *zooOutcome {
	tail := row.tail
	p := &play{t: t, row: row, mode: mode, length: row.length, start: time.Now(), cfg: shippedConfig(),
		rnd: rand.New(rand.NewPCG(seed, 1)), bodies: map[uint64]bool{}, hash: maphash.MakeSeed(), seed: seed, asideAt: map[int]time.Duration{}}
	if !*zooFull {
		p.length, tail = min(p.length, row.short), min(tail, 10*time.Minute)
	}
	if zooUnderRace {
		p.length, tail = min(p.length, 40*time.Second), min(tail, 2*time.Minute)
	}
	p.answer = row.receiver(p)
	p.cfg.Shrink = p.shrink
	p.cfg.Observer = Observer{
		Accepted: p.acceptedTold, Rejected: p.rejected, GivenUp: p.gaveUp, Failed: p.failed, Health: p.healthChanged,
		Shrunk: func([]byte, error) { p.mu.Lock(); p.log.lines++; p.mu.Unlock() },
	}
	if row.config != nil {
		row.config(&p.cfg)
	}
	p.b = New(p.cfg, p)
	stop := make(chan struct{})
	if err := p.b.Run(stop); err != nil {
		t.Fatal(err)
	}
	f := &fluentBit{play: p, exit: make(chan struct{}), rnd: rand.New(rand.NewPCG(seed, 2))}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run()
	}()

	o := &zooOutcome{play: p}
	if row.stopAfter != nil {
		time.Sleep(row.stopAfter(p))
	} else {
		p.watch(o, tail)
	}
	close(f.exit)
	close(stop)
	p.mu.Lock()
	p.stopping = true
	if p.isClosed {
		p.closed += p.now() - p.closedAt
	}
	p.mu.Unlock()
	begin := time.Now()
	p.b.Shutdown(requestTimeout/6, mode == modeBlocking)
	o.stopTook = time.Since(begin)
	<-ended
	o.stats = p.b.Stats()
	o.count(f.open())
	o.check()
	return o
}

// watch measures while the load goes on, and until what was measured has arrived.
func (p *play) watch(o *zooOutcome, tail time.Duration) {
	for {
		time.Sleep(time.Second)
		s := p.b.Stats()
		pending, held := zooPending(p.b), held(p.b)
		p.mu.Lock()
		sec := p.secondLocked()
		sec.pending, sec.held = pending, held
		p.imbalance = p.imbalance || !isBalanced(s)
		now := p.now()
		if now >= p.length && o.postsInTime == 0 {
			o.postsInTime = len(p.posts)
		}
		isOver := now >= p.length && p.arrivedLocked(o) || now >= p.length+tail
		p.mu.Unlock()
		if isOver {
			o.drained = now - p.length
			return
		}
	}
}

// expected is how many events count in the end.
func (p *play) expected() int {
	if p.row.once {
		return p.row.lot
	}
	return int((p.length+p.row.every-1)/p.row.every) * p.row.lot
}

// arrivedLocked says whether every good event that counts is accepted, and the bad ones
// are dealt with if the row wants to see that.
func (p *play) arrivedLocked(o *zooOutcome) bool {
	if p.measured < p.expected() {
		return false // a flush goes on, and what has come meanwhile was not looked at
	}
	for ; o.arrived < p.measured; o.arrived++ {
		if e := p.events[o.arrived]; e.state < isAccepted && (!e.bad || p.row.awaitsBad) {
			return false
		}
	}
	return true
}

// zooOutcome is what came of a play.
type zooOutcome struct {
	*play
	arrived     int // the first so many have
	postsInTime int
	stats       Stats
	stopTook    time.Duration
	drained     time.Duration

	good, goodInTime, goodLeft int // of the events that count
	waitGood, waitFellow       time.Duration
	aside, badLeft             int
	waitAside                  time.Duration // of a bad one, until it is accepted or set aside
	failures                   int
	broken                     []string
}

// count adds up what the events have come to.
func (o *zooOutcome) count(open []*zooChunk) {
	isOpen := make([]bool, len(o.events))
	for _, c := range open {
		for n := c.first; n < c.end; n++ {
			isOpen[n] = true
		}
	}
	end := o.now()
	for n, e := range o.events {
		if e.got == 0 && e.state != isAside && !e.givenUp && !isOpen[n] {
			o.faultLocked("lost: an event is in no chunk, and has not arrived")
		}
		if n >= o.measured {
			break
		}
		born, took := time.Duration(e.born)*time.Millisecond, time.Duration(e.took)*time.Millisecond
		if e.got == 0 {
			took = end
		}
		if e.bad {
			wait := took - born
			switch {
			case e.state == isAside:
				o.aside++
				wait = o.asideAt[n] - born
			case e.got == 0:
				o.badLeft++
			}
			o.waitAside = max(o.waitAside, wait)
			continue
		}
		o.good++
		if e.got == 0 {
			o.goodLeft++
		} else if took <= o.length+max(o.cfg.MaxWait, o.row.grace) { // the last ones may wait for company
			o.goodInTime++
		}
		if e.fellow {
			o.waitFellow = max(o.waitFellow, took-born)
		} else {
			o.waitGood = max(o.waitGood, took-born)
		}
	}
	for _, p := range o.posts {
		if p.failed {
			o.failures++
		}
	}
}

// check holds the outcome to what must hold everywhere, and to the bounds of its row.
func (o *zooOutcome) check() {
	t := o.t
	for what, times := range o.faults {
		t.Errorf("%s (%d times)", what, times)
	}
	s := o.stats
	if o.imbalance || !isBalanced(s) || s.Pending != 0 {
		t.Errorf("the account does not hold: %+v", s)
	}
	if s.Accepted != o.accepted || o.told != o.accepted {
		t.Errorf("accepted %d, told %d, but the receiver got %d", s.Accepted, o.told, o.accepted)
	}
	if s.Requests != uint64(len(o.posts)) {
		t.Errorf("%d requests counted, but the receiver saw %d", s.Requests, len(o.posts))
	}
	if left := zooPending(o.b); left != 0 {
		t.Errorf("%d bytes pending with no event pending", left)
	}
	bounds := o.row.bounds
	if !o.row.leaves {
		left := atMost("good events that have not arrived", 0, func(o *zooOutcome) float64 { return float64(o.goodLeft) })
		bounds = append(slices.Clip(bounds), left.long())
	}
	for _, b := range bounds {
		if zooUnderRace || b.isLong && !*zooFull {
			continue
		}
		if !*zooFull {
			b.least, b.most = b.least-shortSlack*math.Abs(b.least), b.most+shortSlack*math.Abs(b.most)
		}
		if v := b.of(o); !(v >= b.least && v <= b.most) {
			o.broken = append(o.broken, fmt.Sprintf("%s: %.4g, want %s", b.what, v, b.want()))
		}
	}
	if o.row.mayFail > 0 {
		return // the seeds together decide, at full length
	}
	for _, text := range o.broken {
		t.Error(text)
	}
}

// shortSlack is by how much a short play may miss a bound: chance weighs more in it, and make
// test must not fail for that.
const shortSlack = 0.3

// bound is what a row must hold.
type bound struct {
	what        string
	least, most float64
	of          func(*zooOutcome) float64
	isLong      bool // only at full length
}

func atLeast(what string, least float64, of func(*zooOutcome) float64) bound {
	return bound{what: what, least: least, most: math.Inf(1), of: of}
}

func atMost(what string, most float64, of func(*zooOutcome) float64) bound {
	return bound{what: what, least: math.Inf(-1), most: most, of: of}
}

// long is the bound for a play of full length alone.
func (b bound) long() bound {
	b.isLong = true
	return b
}

func (b bound) want() string {
	if math.IsInf(b.most, 1) {
		return fmt.Sprintf("at least %.4g", b.least)
	}
	return fmt.Sprintf("at most %.4g", b.most)
}

func (o *zooOutcome) percent() float64 { return 100 * float64(o.goodInTime) / float64(max(1, o.good)) }

func (o *zooOutcome) requestsPer1000() float64 {
	return 1000 * float64(o.postsInTime) / float64(max(1, o.measured))
}

func (o *zooOutcome) closedPercent() float64 {
	return 100 * float64(o.closed) / float64(max(o.now(), 1))
}

// peak is the largest of what was seen every second.
func (o *zooOutcome) peak(of func(second) int) (most int) {
	for _, s := range o.seconds {
		most = max(most, of(s))
	}
	return most
}

func pendingOf(s second) int { return s.pending }
func heldOf(s second) int    { return s.held }

var zooColumns = []string{"receiver", "mode", "good/s", "offered", "%", "requests/1000", "failed", "wait", "fellows", "drain", "pending MB", "held MB", "closed", "closed %", "set aside", "left", "lines"}

var zooHeader = zooFormat(zooColumns)

func zooFormat(cells []string) string {
	return fmt.Sprintf("%-40s %-8s %7s %7s %6s %13s %7s %7s %7s %6s %10s %8s %6s %8s %9s %5s %5s\n", anys(cells)...)
}

func anys(cells []string) (all []any) {
	for _, c := range cells {
		all = append(all, c)
	}
	return all
}

func (o *zooOutcome) numbers() []float64 {
	length := max(1, o.length.Seconds())
	return []float64{
		float64(o.goodInTime) / length, float64(o.good) / length, o.percent(), o.requestsPer1000(), float64(o.failures),
		o.waitGood.Seconds(), o.waitFellow.Seconds(), o.drained.Seconds(),
		float64(o.peak(pendingOf)) / 1e6, float64(o.peak(heldOf)) / 1e6,
		float64(o.closings), o.closedPercent(), float64(o.aside), float64(o.goodLeft + o.badLeft), float64(o.log.lines),
	}
}

// isBetterHigher says of each of the numbers whether the smallest is the worst.
var isBetterHigher = [15]bool{0: true, 1: true, 2: true}

func (o *zooOutcome) cells() []string { return zooCells(o.row.name, o.mode, o.numbers()) }

func zooCells(name, mode string, numbers []float64) []string {
	cells := []string{name, mode}
	for i, v := range numbers {
		format := "%.0f"
		switch i {
		case 2, 3, 5, 6, 8, 9, 11:
			format = "%.1f"
		case 0, 1:
			format = "%.4g"
		}
		cells = append(cells, fmt.Sprintf(format, v))
	}
	return cells
}

func (o *zooOutcome) line() string { return strings.TrimSuffix(zooFormat(o.cells()), "\n") }

// zooResults are the numbers of all plays, for the table.
type zooResults struct {
	mu   sync.Mutex
	rows map[zooKey]*zooWorst
}

type zooKey struct {
	row  int
	mode string
}

// zooWorst is the worst of the seeds, number by number.
type zooWorst struct {
	name    string
	numbers []float64
	mayFail float64
	plays   int
	broken  []string // of the plays that broke a bound, a line each
	isRed   bool
}

func (r *zooResults) add(t *testing.T, row int, o *zooOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = map[zooKey]*zooWorst{}
	}
	k := zooKey{row, o.mode}
	w := r.rows[k]
	if w == nil {
		w = &zooWorst{name: o.row.name, mayFail: o.row.mayFail, numbers: o.numbers()}
		r.rows[k] = w
	}
	for i, v := range o.numbers() {
		if isBetterHigher[i] {
			w.numbers[i] = min(w.numbers[i], v)
		} else {
			w.numbers[i] = max(w.numbers[i], v)
		}
	}
	w.plays++
	w.isRed = w.isRed || t.Failed()
	if len(o.broken) > 0 {
		w.broken = append(w.broken, fmt.Sprintf("seed %d: %s", o.seed, strings.Join(o.broken, "; ")))
	}
}

// end judges the rows whose seeds are judged together, and writes the table.
func (r *zooResults) end(t *testing.T) {
	keys := make([]zooKey, 0, len(r.rows))
	for k := range r.rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b zooKey) int {
		if a.row != b.row {
			return a.row - b.row
		}
		return -strings.Compare(a.mode, b.mode) // blocking first
	})
	plain, markdown := zooHeader, "| "+strings.Join(zooColumns, " | ")+" |\n"+strings.Repeat("|---", len(zooColumns))+"|\n"
	for _, k := range keys {
		w := r.rows[k]
		if w.mayFail > 0 && *zooFull && float64(len(w.broken)) > w.mayFail*float64(w.plays) {
			w.isRed = true
			t.Errorf("%s, %s: %d of %d seeds break a bound\n%s", w.name, k.mode, len(w.broken), w.plays, strings.Join(w.broken, "\n"))
		}
		cells := zooCells(w.name, k.mode, w.numbers)
		line := strings.TrimSuffix(zooFormat(cells), "\n")
		if w.isRed {
			line += "  RED"
			cells[0] += " (bound broken)"
		}
		plain += line + "\n"
		markdown += "| " + strings.Join(cells, " | ") + " |\n"
	}
	fmt.Print("\nThe worst of the seeds:\n", plain)
	if *zooTable != "" {
		if err := os.WriteFile(*zooTable, []byte(markdown), 0o644); err != nil {
			t.Error(err)
		}
	}
}
