package batch

import (
	"slices"
	"strings"
	"testing"
)

func eventsOf(events ...string) *Events {
	ev := newEvents(64)
	for _, e := range events {
		ev.Add([]byte(e), idOf(e))
	}
	return ev
}

func itemsOf(ev *Events) []string {
	var items []string
	for i := range ev.Len() {
		items = append(items, string(ev.Event(i)))
	}
	return items
}

func TestBodyIsTheEventListOfTheWireFormat(t *testing.T) {
	const want = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{"auditID":"a"},{"auditID":"b"}]}`
	ev := eventsOf(`{"auditID":"a"}`, `{"auditID":"b"}`)
	if got := string(ev.body()); got != want {
		t.Errorf("body\n got %s\nwant %s", got, want)
	}
	if ev.Size() != len(want) {
		t.Errorf("Size() = %d, want the %d bytes of the body", ev.Size(), len(want))
	}
	ev.Add([]byte(`{"auditID":"c"}`), idOf(`{"auditID":"c"}`))
	if got := string(ev.body()); got != want[:len(want)-2]+`,{"auditID":"c"}]}` {
		t.Errorf("after a body was made, another event gives %s", got)
	}
}

func TestAnEventBegunAndNotCommittedLeavesNoTrace(t *testing.T) {
	ev := eventsOf(`{"a":1}`)
	_ = append(ev.Begin(), `{"half":`...)
	ev.Add([]byte(`{"b":2}`), idOf(`{"b":2}`))
	if got := itemsOf(ev); !slices.Equal(got, []string{`{"a":1}`, `{"b":2}`}) {
		t.Errorf("events %v", got)
	}
}

func TestMoveLastMovesOneEvent(t *testing.T) {
	from, to := eventsOf(`{"a":1}`, `{"b":2}`), eventsOf()
	from.MoveLast(to)
	if got := itemsOf(from); !slices.Equal(got, []string{`{"a":1}`}) {
		t.Errorf("left: %v", got)
	}
	if got := itemsOf(to); !slices.Equal(got, []string{`{"b":2}`}) {
		t.Errorf("moved: %v", got)
	}
	from.MoveLast(to)
	if from.Len() != 0 || from.Size() != len(listHead)+len(listTail) {
		t.Errorf("an emptied run has %d events and size %d", from.Len(), from.Size())
	}
}

func TestSliceKeepsEventsAndOrder(t *testing.T) {
	all := []string{`{"a":1}`, `{"bb":22}`, `{"ccc":333}`, `{"d":4}`}
	ev := eventsOf(all...)
	for i := range all {
		for j := i + 1; j <= len(all); j++ {
			if got := itemsOf(ev.slice(i, j)); !slices.Equal(got, all[i:j]) {
				t.Errorf("slice(%d, %d) = %v", i, j, got)
			}
		}
	}
}

func TestFilterKeepsSomeInOrderWithTheirIdentities(t *testing.T) {
	all := []string{`{"a":1}`, `{"bb":22}`, `{"ccc":333}`, `{"d":4}`, `{"ee":55}`}
	for from := range len(all) + 1 {
		for keep := range 1 << (len(all) - from) {
			ev := eventsOf(all...)
			want := slices.Clone(all[:from])
			for i := from; i < len(all); i++ {
				if keep>>(i-from)&1 == 1 {
					want = append(want, all[i])
				}
			}
			next := from
			ev.Filter(from, func(i int) bool {
				if i != next {
					t.Errorf("asked about %d, want %d", i, next)
				}
				next++
				return keep>>(i-from)&1 == 1
			})
			if got, body := itemsOf(ev), string(ev.body()); !slices.Equal(got, want) || body != listHead+strings.Join(want, ",")+listTail {
				t.Errorf("from %d, %b: %v in %s, want %v", from, keep, got, body, want)
			}
			for i, e := range want {
				if ev.IDs()[i] != idOf(e) {
					t.Errorf("%s has another one's identity", e)
				}
			}
			ev.Add([]byte(`{}`), idOf(`{}`))
			if got := itemsOf(ev); !slices.Equal(got, append(want, `{}`)) {
				t.Errorf("after one more: %v", got)
			}
		}
	}
}
