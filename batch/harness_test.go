// The receiver that the tests of this package send to, and the account that
// every one of them ends with.

package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a Sender that keeps what it accepts. answer decides, nil accepts.
type receiver struct {
	answer func(ctx context.Context, r request) error

	mu       sync.Mutex
	requests []request
	items    []string // of accepted bodies, in the order of acceptance
	watched  bool     // the observer was told of what is accepted
	ids      []ID     // what it was told
	active   int
	most     int // requests at once
}

type request struct {
	at    time.Time
	n     int // of all requests, from 1
	body  string
	items []string
	ok    bool
}

func (r *receiver) Send(ctx context.Context, body []byte) error {
	var list struct {
		Kind, APIVersion string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal(body, &list); err != nil || list.Kind != "EventList" || list.APIVersion != "audit.k8s.io/v1" || len(list.Items) == 0 {
		panic(fmt.Sprintf("not an audit EventList (%v): %s", err, body))
	}
	req := request{at: time.Now(), body: string(body)}
	for _, item := range list.Items {
		req.items = append(req.items, string(item))
	}
	r.mu.Lock()
	req.n = len(r.requests) + 1
	r.requests = append(r.requests, req)
	r.active++
	r.most = max(r.most, r.active)
	r.mu.Unlock()

	var err error
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.active--
		if v := recover(); v != nil {
			panic(v)
		}
		if err == nil {
			r.requests[req.n-1].ok = true
			r.items = append(r.items, req.items...)
		}
	}()
	if r.answer != nil {
		err = r.answer(ctx, req)
	}
	return err
}

// accepted is what the observer is told.
func (r *receiver) accepted(ids []ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, ids...)
}

// idOf is the identity that the tests give an event.
func idOf(event string) ID {
	h := fnv.New64a()
	h.Write([]byte(event))
	return ID{h.Sum64(), uint64(len(event))}
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.items)
}

func (r *receiver) all() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *receiver) sizes() (sizes []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.requests {
		sizes = append(sizes, len(req.items))
	}
	return sizes
}

// since is when each request came, counted from start.
func (r *receiver) since(start time.Time) (times []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.requests {
		times = append(times, req.at.Sub(start))
	}
	return times
}

// status is an answer with an HTTP status.
type status int

func (s status) Error() string   { return fmt.Sprintf("answered %d", int(s)) }
func (s status) StatusCode() int { return int(s) }

// askedToWait is an answer 503 with Retry-After.
type askedToWait time.Duration

func (askedToWait) Error() string                       { return "answered 503" }
func (askedToWait) StatusCode() int                     { return 503 }
func (a askedToWait) RetryAfter() (time.Duration, bool) { return time.Duration(a), true }

var errRefused = errors.New("connection refused")

func testConfig() Config {
	return Config{
		MaxSize: 4, MaxBytes: 4096, MaxWait: time.Second,
		BufferSize: 1000, BufferBytes: 1 << 20,
		MaxConcurrentRequests: 4,
		InitialBackoff:        time.Second, MaxBackoff: 30 * time.Second,
		SlowAfter: 4 * time.Second,
	}
}

// started is a running Backend; closing stop ends its intake.
func started(t *testing.T, cfg Config, r *receiver) (b *Backend, stop chan struct{}) {
	t.Helper()
	if cfg.Observer.Accepted == nil && cfg.Shrink == nil {
		r.watched = true
		cfg.Observer.Accepted = r.accepted
	}
	b = New(cfg, r)
	stop = make(chan struct{})
	if err := b.Run(stop); err != nil {
		t.Fatal(err)
	}
	return b, stop
}

func event(i int) string { return fmt.Sprintf(`{"auditID":"%04d"}`, i) }

func eventRange(from, to int) (events []string) {
	for i := from; i < to; i++ {
		events = append(events, event(i))
	}
	return events
}

// now is a context that does not wait.
func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func process(t *testing.T, b *Backend, events ...string) {
	t.Helper()
	if err := b.ProcessEvents(now(), fill(b, events)); err != nil {
		t.Fatalf("ProcessEvents: %v", err)
	}
}

func fill(b *Backend, events []string) *Events {
	ev := b.NewEvents()
	for _, e := range events {
		ev.Add([]byte(e), idOf(e))
	}
	return ev
}

func deliver(t *testing.T, b *Backend, events ...string) *Delivery {
	t.Helper()
	d := b.NewDelivery()
	if err := d.Add(now(), fill(b, events)); err != nil {
		t.Fatalf("Add: %v", err)
	}
	d.End()
	return d
}

// deliverPatiently comes back every second while nothing is taken, as Fluent
// Bit does.
func deliverPatiently(b *Backend, events []string) {
	d := b.NewDelivery()
	for d.Add(now(), fill(b, events)) != nil {
		time.Sleep(time.Second)
	}
	d.End()
}

func isDone(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// checkAccount asserts that every event is accounted for: accepted is what the
// receiver got.
func checkAccount(t *testing.T, b *Backend, r *receiver) {
	t.Helper()
	s := b.Stats()
	if s.Taken != s.Accepted+s.Rejected+s.Returned+s.GivenUp+s.Pending {
		t.Errorf("taken %d, but accepted %d + rejected %d + returned %d + given up %d + pending %d", s.Taken, s.Accepted, s.Rejected, s.Returned, s.GivenUp, s.Pending)
	}
	if got := len(r.got()); uint64(got) != s.Accepted {
		t.Errorf("accepted %d, but the receiver got %d", s.Accepted, got)
	}
	if r.watched {
		var want []ID
		for _, item := range r.got() {
			want = append(want, idOf(item))
		}
		r.mu.Lock()
		got := slices.Clone(r.ids)
		r.mu.Unlock()
		order := func(a, b ID) int { return slices.Compare(a[:], b[:]) }
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if !slices.Equal(got, want) {
			t.Errorf("the observer was told of %d accepted events, want the %d that the receiver got", len(got), len(want))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Pending == 0 && (b.pendingBytes != 0 || b.held != 0 || b.suspects.events != 0 || b.suspects.bytes != 0) {
		t.Errorf("no event is pending, but %d bytes are, %d are held, and suspects have %v", b.pendingBytes, b.held, b.suspects)
	}
}

// wantGot asserts which events the receiver accepted, in any order.
func wantGot(t *testing.T, r *receiver, want []string) {
	t.Helper()
	got, want := r.got(), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the receiver got %d events, want %d\n got %s\nwant %s", len(got), len(want), strings.Join(got, " "), strings.Join(want, " "))
	}
}
