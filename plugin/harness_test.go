// What the tests of this package share: a receiver in place of the webhook, an
// instance around it, and chunks as Fluent Bit makes them.

package plugin

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver stands in for the webhook client and keeps what it accepts.
type receiver struct {
	answer func(ctx context.Context, n int, items []string) error // nil accepts
	query  string                                                 // of its URL

	mu     sync.Mutex
	n      int // requests
	items  []string
	closed bool
}

func (r *receiver) Send(ctx context.Context, body []byte) error {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(body, &list); err != nil {
		panic(err)
	}
	var items []string
	for _, item := range list.Items {
		items = append(items, string(item))
	}
	r.mu.Lock()
	r.n++
	n, answer := r.n, r.answer
	r.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, n, items); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.items = append(r.items, items...)
	r.mu.Unlock()
	return nil
}

func (r *receiver) Destination() string { return "http://webhook.example/audit" + r.query }

func (r *receiver) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
}

// now answers so from now on.
func (r *receiver) now(answer func(ctx context.Context, n int, items []string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.items)
}

func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// wantGot asserts what the receiver accepted, each as often as it stands in
// want, in any order.
func (r *receiver) wantGot(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	got := slices.Clone(r.items)
	r.mu.Unlock()
	want = slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the receiver got %d events, want %d\n got %s\nwant %s", len(got), len(want), shorten(got), shorten(want))
	}
}

func shorten(events []string) string {
	if len(events) > 12 {
		return strings.Join(events[:12], " ") + " ..."
	}
	return strings.Join(events, " ")
}

// logBuffer is a log that tests can read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) count(text string) int { return strings.Count(l.String(), text) }

// from makes a getter of keys as Fluent Bit has it: whatever the case.
func from(keys ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(keys); i += 2 {
			if strings.EqualFold(keys[i], name) {
				return keys[i+1]
			}
		}
		return ""
	}
}

// started is an instance that sends to r, with the given keys and values.
func started(t *testing.T, r *receiver, keys ...string) (*Instance, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	return startedIn(t, &Process{Version: "test", Log: log}, r, keys...), log
}

func startedIn(t *testing.T, p *Process, r *receiver, keys ...string) *Instance {
	t.Helper()
	return startedWith(t, p, r, func(*Config) {}, keys...)
}

// startedWith is for settings that no key may have.
func startedWith(t *testing.T, p *Process, c client, set func(*Config), keys ...string) *Instance {
	t.Helper()
	cfg, err := ParseConfig(from(append(keys, "URL", "http://webhook.example/audit")...))
	if err != nil {
		t.Fatal(err)
	}
	set(cfg)
	in, err := assemble(p, cfg.Instance, cfg, c)
	if err != nil {
		t.Fatal(err)
	}
	p.instances = append(p.instances, in)
	return in
}

// event is a minimal audit event.
func event(i int) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"%05d","stage":"ResponseComplete"}`, i)
}

func eventRange(from, to int) (events []string) {
	for i := from; i < to; i++ {
		events = append(events, event(i))
	}
	return events
}

// chunk is what in_tail makes of raw lines.
func chunk(lines ...string) []byte {
	var b []byte
	for i, line := range lines {
		b = append(b, 0x92, 0x92, 0xd7, 0x00)
		b = binary.BigEndian.AppendUint32(b, 1760000000)
		b = binary.BigEndian.AppendUint32(b, uint32(i))
		b = append(b, 0x80, 0xdf, 0, 0, 0, 1, 0xa3, 'l', 'o', 'g', 0xdb)
		b = binary.BigEndian.AppendUint32(b, uint32(len(line)))
		b = append(b, line...)
	}
	return b
}

// flush gives the instance a copy of the chunk and spoils it afterwards, as
// Fluent Bit may unmap it.
func flush(in *Instance, c []byte) Answer {
	c = bytes.Clone(c)
	answer := in.Flush(c, "kube.audit")
	for i := range c {
		c[i] = 0xc1
	}
	return answer
}

// checkAccount asserts that taken = accepted + rejected + given up + pending
// and that accepted is what the receiver got.
func checkAccount(t *testing.T, in *Instance, r *receiver) {
	t.Helper()
	s := in.backend.Stats()
	if s.Taken != s.Accepted+s.Rejected+s.Returned+s.GivenUp+s.Pending {
		t.Errorf("account: %+v", s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Accepted != uint64(len(r.items)) {
		t.Errorf("accepted %d, the receiver got %d", s.Accepted, len(r.items))
	}
}
