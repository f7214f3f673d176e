// Fluent Bit and the plugin as the zoo has them: events come in chunks, one chunk at a
// time is handed over, and one that is not done comes back later.

package batch

import (
	"bytes"
	"container/heap"
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	flushTimeout  = 4 * time.Second
	retryBase     = 2 * time.Second  // a chunk comes back after this
	retrySpread   = 29 * time.Second // and up to so much more
	chunkEvents   = 2800             // 2 MB of events
	modeBlocking  = "blocking"
	modeBatch     = "batch"
	shrunkenBytes = 900 // of an event that was made smaller
)

// zooEvent is what the plugin's ledger and the receiver know of an event, whose number is
// its index.
type zooEvent struct {
	born, took int32 // milliseconds since the start; took: of the first acceptance
	size       int32
	got        uint8 // how often the receiver has stored it
	bad        bool
	fellow     bool // it was in a body with a bad one
	shrunk     bool
	givenUp    bool // asynchronously, at the end
	state      zooState
}

type zooState uint8

const (
	isNew zooState = iota
	isInFlight
	isAccepted
	isAside
)

// A zooEvent's JSON has its number, whether it is bad, and its size at fixed places, so
// that a body is read without a parser, and padding that the number says.
const (
	eventHead = `{"n":0000000000,"bad":0,"size":00000000,"pad":"`
	eventTail = `"}`
	numberAt  = len(`{"n":`)
	badAt     = len(`{"n":0000000000,"bad":`)
	sizeAt    = len(`{"n":0000000000,"bad":0,"size":`)
)

// padding has what would mislead one who looks for the end of an event by its brace.
var padding = func() []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789 ,:{}[]"
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1_300_000)
	for i := range b {
		b[i] = letters[rnd.IntN(len(letters))]
	}
	return b
}()

func paddingOf(n, size int) []byte {
	from := n % 509
	return padding[from : from+size-len(eventHead)-len(eventTail)]
}

func appendEvent(to []byte, n int, bad bool, size int) []byte {
	start := len(to)
	to = append(to, eventHead...)
	putDigits(to[start+numberAt:][:10], n)
	if bad {
		to[start+badAt] = '1'
	}
	putDigits(to[start+sizeAt:][:8], size)
	to = append(to, paddingOf(n, size)...)
	return append(to, eventTail...)
}

func putDigits(to []byte, v int) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = byte('0' + v%10)
		v /= 10
	}
}

func digits(of []byte) (v int) {
	for _, c := range of {
		v = 10*v + int(c-'0')
	}
	return v
}

// readEvent reads the event that text begins with; ok is whether it is one, byte for
// byte.
func readEvent(text []byte) (n int, bad bool, size int, ok bool) {
	if len(text) < len(eventHead)+len(eventTail) {
		return 0, false, 0, false
	}
	n, bad, size = digits(text[numberAt:][:10]), text[badAt] == '1', digits(text[sizeAt:][:8])
	if n < 0 || size < len(eventHead)+len(eventTail) || size > min(len(text), len(padding)-509) {
		return 0, false, 0, false
	}
	var head [len(eventHead)]byte
	copy(head[:], eventHead)
	copy(head[numberAt:][:10], text[numberAt:])
	copy(head[sizeAt:][:8], text[sizeAt:])
	if bad {
		head[badAt] = '1'
	}
	ok = bytes.Equal(text[:len(eventHead)], head[:]) &&
		bytes.Equal(text[len(eventHead):size-len(eventTail)], paddingOf(n, size)) &&
		string(text[size-len(eventTail):size]) == eventTail
	return n, bad, size, ok
}

func shrinkEvent(event []byte) []byte {
	n, bad, size, ok := readEvent(event)
	if !ok || size <= shrunkenBytes {
		return nil
	}
	return appendEvent(nil, n, bad, shrunkenBytes)
}

// zooChunk is the events from first up to end.
type zooChunk struct {
	first, end int
	due        time.Time // when it comes back
}

type chunksByDue []*zooChunk

func (h chunksByDue) Len() int           { return len(h) }
func (h chunksByDue) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h chunksByDue) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *chunksByDue) Push(x any)        { *h = append(*h, x.(*zooChunk)) }
func (h *chunksByDue) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// fluentBit hands over what comes, until exit is closed.
type fluentBit struct {
	*play
	exit    chan struct{}
	rnd     *rand.Rand
	lots    int // offered so far
	ready   []*zooChunk
	waiting chunksByDue
	ids     []ID // of the run that is handed over
}

func (f *fluentBit) run() {
	for {
		f.offer()
		now := time.Now()
		for len(f.waiting) > 0 && !f.waiting[0].due.After(now) {
			f.ready = append(f.ready, heap.Pop(&f.waiting).(*zooChunk))
		}
		if len(f.ready) == 0 {
			next := f.nextLot()
			if len(f.waiting) > 0 && f.waiting[0].due.Before(next) {
				next = f.waiting[0].due
			}
			sleep := time.NewTimer(time.Until(next))
			select {
			case <-f.exit:
				sleep.Stop()
				return
			case <-sleep.C:
			}
			continue
		}
		select {
		case <-f.exit:
			return
		default:
		}
		c := f.ready[0]
		f.ready = f.ready[1:]
		if !f.flush(c) {
			c.due = time.Now().Add(retryBase + time.Duration(f.rnd.Int64N(int64(retrySpread))))
			heap.Push(&f.waiting, c)
		}
	}
}

func (f *fluentBit) nextLot() time.Time {
	if f.row.once && f.lots > 0 {
		return f.start.Add(100 * 24 * time.Hour)
	}
	return f.start.Add(time.Duration(f.lots) * f.row.every)
}

// offer makes the events whose time has come. After the row's length only good ones
// come, which are not measured: they are company for those that are left.
func (f *fluentBit) offer() {
	for !f.nextLot().After(time.Now()) {
		at := time.Duration(f.lots) * f.row.every
		f.lots++
		f.mu.Lock()
		first := len(f.events)
		for n := first; n < first+f.row.lot; n++ {
			e := zooEvent{born: int32(at / time.Millisecond), size: int32(f.row.size)}
			if at < f.length && f.row.bad != nil && f.row.bad(n, f.seed) {
				e.bad = true
				if f.row.badSize > 0 {
					e.size = int32(f.row.badSize)
				}
			}
			f.events = append(f.events, e)
		}
		end := len(f.events)
		if at < f.length {
			f.measured = end
		}
		f.mu.Unlock()
		for ; first < end; first += chunkEvents {
			f.ready = append(f.ready, &zooChunk{first: first, end: min(first+chunkEvents, end)})
		}
	}
}

// flush hands a chunk over and says whether it is done, or else comes back.
func (f *fluentBit) flush(c *zooChunk) (ok bool) {
	if health, _ := f.b.Health(); health == Down && !f.b.WantsProbe() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if f.mode == modeBatch {
		_, err := f.read(ctx, c, f.b.ProcessEvents)
		return err == nil
	}
	d := f.b.NewDelivery()
	submitted, err := f.read(ctx, c, d.Add)
	if err != nil {
		return false
	}
	d.End()
	// Where nothing is new, nobody needs to wait for what is in flight.
	if submitted > 0 && !f.settled(ctx, d) {
		return false
	}
	return f.allAccepted(c)
}

// read gives what is new in the chunk to the backend, in runs within its limits.
func (f *fluentBit) read(ctx context.Context, c *zooChunk, enqueue func(context.Context, *Events) error) (submitted int, err error) {
	run := f.b.NewEvents()
	maxEvents, maxBytes := f.b.Limits()
	submit := func() error {
		if run.Len() == 0 {
			return nil
		}
		n, ids := run.Len(), append(f.ids[:0], run.IDs()...)
		f.ids = ids
		f.setState(ids, isNew, isInFlight) // its events may be accepted before the backend returns
		if err := enqueue(ctx, run); err != nil {
			f.setState(ids, isInFlight, isNew)
			f.toldNotTaken(err)
			return err
		}
		submitted += n
		run = f.b.NewEvents()
		maxEvents, maxBytes = f.b.Limits()
		return nil
	}
	defer func() { f.b.Release(run) }()
	for n := c.first; n < c.end; n++ {
		e := f.event(n)
		if e.state != isNew {
			continue
		}
		if run.Len() > 0 && run.Size()+len(",")+int(e.size) > maxBytes {
			if err := submit(); err != nil {
				return submitted, err
			}
		}
		run.Commit(appendEvent(run.Begin(), n, e.bad, int(e.size)), ID{uint64(n), 1})
		if run.Len() >= maxEvents {
			if err := submit(); err != nil {
				return submitted, err
			}
		}
	}
	return submitted, submit()
}

// settled waits until d is done. It ends early as a flush of the plugin does.
func (f *fluentBit) settled(ctx context.Context, d *Delivery) bool {
	stuck := d.Stuck()
	for {
		health, changed := f.b.Health()
		if isDone(d.Done()) {
			return true
		}
		if health != Healthy {
			return false
		}
		select {
		case <-d.Done():
			return true
		case <-stuck:
			return false
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// open are the chunks that were not answered with success.
func (f *fluentBit) open() []*zooChunk { return append(f.ready, f.waiting...) }

func (p *play) event(n int) zooEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[n]
}

func (p *play) setState(ids []ID, from, to zooState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if e := &p.events[id[0]]; e.state == from {
			e.state = to
		}
	}
}

// allAccepted says whether every event of the chunk is accepted, or set aside.
func (p *play) allAccepted(c *zooChunk) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.events[c.first:c.end] {
		if p.events[c.first+i].state < isAccepted {
			return false
		}
	}
	return true
}

// zooLog counts the lines that the plugin would log: the same one once a minute.
type zooLog struct {
	lines int
	last  map[string]time.Time
}

func (l *zooLog) tell(kind string) {
	now := time.Now()
	if last, ok := l.last[kind]; ok && now.Sub(last) < time.Minute {
		return
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	l.last[kind] = now
	l.lines++
}

func (p *play) toldNotTaken(err error) {
	if err == ErrFull || err == ErrSlow {
		p.mu.Lock()
		p.log.tell("full")
		p.mu.Unlock()
	}
}

func (p *play) failed(f Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Single != nil && f.Tries > 1 {
		n, _, _, _ := readEvent(f.Single)
		p.log.tell("event " + strconv.Itoa(n))
		return
	}
	p.log.tell("request: " + f.Err.Error())
}
