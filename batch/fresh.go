// This file is the events that have not been tried yet, in the order they came.

package batch

import "time"

// freshEvents is a queue of views. A run that fills a batch goes as it stands; smaller ones
// join, each as a whole.
type freshEvents struct {
	items  []freshView
	first  int // index of the first that is left
	events int
	bytes  int
	due    int // of the events, from the first on, those that do not wait for company
}

type freshView struct {
	view
	arrived time.Time
}

// add appends a view. With due, nothing that came so far waits for company.
func (f *freshEvents) add(v view, due bool, now time.Time) {
	f.items = append(f.items, freshView{v, now})
	f.events += v.len()
	f.bytes += v.bytes()
	if due {
		f.due = f.events
	}
}

// last is the view that came last, nil if there is none.
func (f *freshEvents) last() *freshView {
	if f.first == len(f.items) {
		return nil
	}
	return &f.items[len(f.items)-1]
}

// grew notes that the last view has so many more events.
func (f *freshEvents) grew(events, bytes int) {
	f.items[len(f.items)-1].to += events
	f.events += events
	f.bytes += bytes
}

// readyAt is when a batch may be cut, zero if there is nothing to cut.
func (f *freshEvents) readyAt(now time.Time, maxEvents, maxBody int, maxWait time.Duration) time.Time {
	switch {
	case f.events == 0:
		return time.Time{}
	case f.due > 0, f.events >= maxEvents, bodyOverhead+f.bytes >= maxBody:
		return now
	}
	return f.items[f.first].arrived.Add(maxWait)
}

// cut takes the next batch's events, within the bounds but at least one.
func (f *freshEvents) cut(maxEvents, maxBody int) (views []view) {
	events, bytes := 0, 0
	for f.first < len(f.items) {
		item := &f.items[f.first]
		n, size := item.len(), item.bytes()
		if events+n > maxEvents || bodyOverhead+bytes+size > maxBody {
			if events == 0 {
				n = item.fit(maxEvents, maxBody)
				var v view
				if n < item.len() {
					v, item.view = item.cut(n)
					f.take(v)
					return []view{v}
				}
			} else {
				return views
			}
		}
		v := item.view
		*item = freshView{}
		f.first++
		f.take(v)
		views = append(views, v)
		events += n
		bytes += size
	}
	f.items, f.first = f.items[:0], 0
	return views
}

func (f *freshEvents) take(v view) {
	f.events -= v.len()
	f.bytes -= v.bytes()
	f.due = max(0, f.due-v.len())
	if f.first > 64 && f.first*2 > len(f.items) {
		n := copy(f.items, f.items[f.first:])
		clear(f.items[n:])
		f.items, f.first = f.items[:n], 0
	}
}
