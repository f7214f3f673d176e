package batch

import (
	"slices"
	"testing"
)

func viewOf(events ...string) view {
	ev := eventsOf(events...)
	return view{&run{events: ev, views: 1}, 0, ev.Len()}
}

func TestAViewFitsAsManyEventsAsItsBodyMayHave(t *testing.T) {
	all := []string{`{"a":1}`, `{"bb":22}`, `{"ccc":333}`, `{"d":4}`}
	for from := range all {
		_, v := view{}, viewOf(all...)
		v.from = from
		for n := 1; n <= len(all)-from; n++ {
			size := eventsOf(all[from : from+n]...).Size()
			if got := v.fit(100, size); got != n {
				t.Errorf("from %d: fit(%d) = %d, want %d", from, size, got, n)
			}
			if got := v.fit(100, size-1); got != max(1, n-1) {
				t.Errorf("from %d: fit(%d) = %d, want %d", from, size-1, got, max(1, n-1))
			}
			if got := v.fit(n, 1000); got != n {
				t.Errorf("from %d: %d events = %d", from, n, got)
			}
		}
	}
}

func TestPartsOfABatchAreItsEventsInOrderAndAddUp(t *testing.T) {
	a, b, c := viewOf(`{"a":1}`, `{"bb":22}`), viewOf(`{"ccc":333}`), viewOf(`{"d":4}`, `{"e":5}`, `{"f":66}`)
	all := []string{`{"a":1}`, `{"bb":22}`, `{"ccc":333}`, `{"d":4}`, `{"e":5}`, `{"f":66}`}
	for n := 1; n < len(all); n++ {
		p := newBatch(1, a, b, c)
		whole := p.body()
		if got := itemsOf(bodyOf(p.views)); !slices.Equal(got, all) || whole != bodyOf(p.views).Size() {
			t.Fatalf("the whole is %v of %d bytes", got, whole)
		}
		first := newBatch(2, p.cutViews(n)...)
		if got := append(itemsOf(bodyOf(first.views)), itemsOf(bodyOf(p.views))...); !slices.Equal(got, all) {
			t.Errorf("cut at %d: %v", n, got)
		}
		if first.events != n || p.events != len(all)-n || first.body()+p.body() != whole+bodyOverhead {
			t.Errorf("cut at %d: %d and %d events, %d and %d bytes of %d", n, first.events, p.events, first.body(), p.body(), whole)
		}
		for size, want := range map[int]int{whole: p.events, p.body(): p.events, p.body() - 1: max(1, p.events-1), 1: 1} {
			if got := p.fit(100, size); got != want {
				t.Errorf("the rest behind %d: fit(%d) = %d, want %d", n, size, got, want)
			}
		}
	}
}

func bodyOf(views []view) *Events {
	body := newEvents(100)
	for _, v := range views {
		v.appendTo(body)
	}
	return body
}
