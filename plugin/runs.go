// This file gathers events into runs, looks them up in the ledger, and hands those
// that are new to the backend.

package plugin

import (
	"out_k8saudit/batch"
	"out_k8saudit/plugin/ledger"
)

// runs is a sequence of events on its way to the backend: those of a chunk, or of a
// file. In the end each of them was handed over, or is done, or is in flight because
// somebody else delivers it. It is for one goroutine.
type runs struct {
	in *Instance
	// take gives a run to the backend, which owns it if there is no error.
	take func(*batch.Events) error

	maxEvents, maxBytes int // of a run

	run      *batch.Events // what was added and not handed over
	reserved int           // its first events: new, and in flight for this run
	next     *batch.Events // the event that run had no room for, reserved too; nil: none
	repairs  []repair      // of the events of run that were not looked up yet
	states   []ledger.State

	added    int         // events
	handed   int         // of them, those handed over
	inFlight []ledger.ID // of them, those that somebody else delivers
	repaired repairs     // of those reserved
}

// repair is what reading has changed in an event, as bits.
type repair uint8

const (
	replacedUTF8 repair = 1 << iota
	timestampRestored
	timestampLeftOut
	truncatedBefore
	repairKinds = iota
)

// repairs counts events by their bits.
type repairs [repairKinds]int

// begin starts over. end has to be called in the end, whatever happens.
func (g *runs) begin() {
	g.added, g.handed, g.inFlight, g.repairs = 0, 0, g.inFlight[:0], g.repairs[:0]
	g.beginRun(g.in.backend.NewEvents(), 0)
}

func (g *runs) beginRun(run *batch.Events, reserved int) {
	g.run, g.reserved, g.repaired = run, reserved, repairs{}
	g.maxEvents, g.maxBytes = g.in.backend.Limits()
}

// end gives back what was not handed over: it is new when it comes again.
func (g *runs) end() {
	if g.run != nil {
		g.in.ledger.Release(g.run.IDs()[:g.reserved])
		g.in.backend.Release(g.run)
	}
	if g.next != nil {
		g.in.ledger.Release(g.next.IDs())
		g.in.backend.Release(g.next)
	}
	g.run, g.next = nil, nil
}

// add takes what run.Begin returned with one event appended. An error is that of take.
func (g *runs) add(buf []byte, id ledger.ID, r repair) error {
	g.run.Commit(buf, id)
	g.repairs = append(g.repairs, r)
	g.added++
	if g.run.Len() < g.maxEvents && g.run.Size() <= g.maxBytes {
		return nil
	}
	g.lookUp()
	switch {
	case g.run.Len() > 1 && g.run.Size() > g.maxBytes:
		// The last one is too much: it begins the next run.
		g.next = g.in.backend.NewEvents()
		g.run.MoveLast(g.next)
		g.reserved--
		return g.hand()
	case g.run.Len() >= g.maxEvents || g.run.Size() > g.maxBytes:
		return g.hand()
	}
	return nil
}

// makeRoom is for an event that does not fit into the run's memory.
func (g *runs) makeRoom() error {
	before := g.run.Len()
	if g.lookUp(); g.run.Len() < before {
		return nil
	}
	return g.hand()
}

// finish hands over the rest.
func (g *runs) finish() error {
	g.lookUp()
	return g.hand()
}

// lookUp asks the ledger about what was added since the last time, and keeps what is
// new.
func (g *runs) lookUp() {
	first := g.reserved
	ids := g.run.IDs()[first:]
	if cap(g.states) < len(ids) {
		g.states = make([]ledger.State, max(len(ids), 2048))
	}
	states := g.states[:len(ids)]
	g.in.ledger.Reserve(ids, states)
	suppressed, others := 0, 0
	for i, s := range states {
		switch s {
		case ledger.New:
			if r := g.repairs[i]; r != 0 {
				g.repaired.add(r)
			}
		case ledger.InFlight:
			g.inFlight = append(g.inFlight, ids[i])
			others++
		case ledger.Done:
			suppressed++
		}
	}
	if suppressed+others > 0 {
		g.run.Filter(first, func(i int) bool { return states[i-first] == ledger.New })
		g.in.counts.suppressed.Add(uint64(suppressed))
	}
	g.reserved, g.repairs = g.run.Len(), g.repairs[:0]
}

// hand gives the run to the backend and goes on with the next one.
func (g *runs) hand() error {
	run, n := g.run, g.run.Len()
	if n == 0 {
		return nil
	}
	g.run = nil // whatever happens, it is the backend's, unless that says otherwise
	if err := g.take(run); err != nil {
		g.run = run
		return err
	}
	g.handed += n
	g.in.countRepairs(&g.repaired)
	if next := g.next; next != nil {
		g.next = nil
		g.beginRun(next, 1)
	} else {
		g.beginRun(g.in.backend.NewEvents(), 0)
	}
	return nil
}

func (c *repairs) add(r repair) {
	for kind := range c {
		c[kind] += int(r >> kind & 1)
	}
}
