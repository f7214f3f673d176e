// This file gathers events into runs, looks them up in the ledger, and submits those
// that are new to the backend.

package plugin

import (
	"out_k8saudit/batch"
	"out_k8saudit/plugin/ledger"
)

// runs is a sequence of events on its way to the backend: those of a chunk, or of a
// file. After finish has returned nil, each of them is submitted, or done, or in flight
// because somebody else delivers it; after an error, end makes the rest new again. It is
// for one goroutine.
type runs struct {
	in *Instance
	// enqueue gives a run to the backend, which owns it if there is no error.
	enqueue func(*batch.Events) error

	maxEvents, maxBytes int // of a run

	run        *batch.Events // what was added and not submitted
	reserved   int           // its first events: new, and in flight for this run
	overflow   *batch.Events // the event that run had no room for, reserved too; nil: none
	overflowed repair        // of that event
	repairs    []repair      // of the events of run that were not looked up yet
	states     []ledger.State

	added     int          // events
	submitted int          // of them, those submitted
	inFlight  []ledger.ID  // of them, those that somebody else delivers
	repaired  repairCounts // of those reserved
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

// repairCounts counts events by their bits.
type repairCounts [repairKinds]int

// begin starts over. end has to be called in the end, whatever happens.
func (g *runs) begin() {
	g.added, g.submitted, g.inFlight, g.repairs = 0, 0, g.inFlight[:0], g.repairs[:0]
	g.beginRun(g.in.backend.NewEvents(), 0)
}

func (g *runs) beginRun(run *batch.Events, reserved int) {
	g.run, g.reserved, g.repaired = run, reserved, repairCounts{}
	g.maxEvents, g.maxBytes = g.in.backend.Limits()
}

// end gives back what was not submitted: it is new when it comes again.
func (g *runs) end() {
	if g.run != nil {
		g.in.ledger.Release(g.run.IDs()[:g.reserved])
		g.in.backend.Release(g.run)
	}
	if g.overflow != nil {
		g.in.ledger.Release(g.overflow.IDs())
		g.in.backend.Release(g.overflow)
	}
	g.run, g.overflow = nil, nil
}

// add takes what run.Begin returned with one event appended. An error is that of enqueue.
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
		g.overflow = g.in.backend.NewEvents()
		g.run.MoveLast(g.overflow)
		g.reserved--
		g.repaired.add(r, -1)
		g.overflowed = r
		return g.submit()
	case g.run.Len() >= g.maxEvents || g.run.Size() > g.maxBytes:
		return g.submit()
	}
	return nil
}

// makeRoom is for an event that does not fit into the run's memory.
func (g *runs) makeRoom() error {
	before := g.run.Len()
	if g.lookUp(); g.run.Len() < before {
		return nil
	}
	return g.submit()
}

// finish submits the rest.
func (g *runs) finish() error {
	g.lookUp()
	return g.submit()
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
				g.repaired.add(r, 1)
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

// submit gives the run to the backend and goes on with the next one.
func (g *runs) submit() error {
	run, n := g.run, g.run.Len()
	if n == 0 {
		return nil
	}
	g.run = nil // whatever happens, it is the backend's, unless that says otherwise
	if err := g.enqueue(run); err != nil {
		g.run = run
		return err
	}
	g.submitted += n
	g.in.countRepairs(&g.repaired)
	if next := g.overflow; next != nil {
		g.overflow = nil
		g.beginRun(next, 1)
		g.repaired.add(g.overflowed, 1)
	} else {
		g.beginRun(g.in.backend.NewEvents(), 0)
	}
	return nil
}

func (c *repairCounts) add(r repair, events int) {
	for kind := range c {
		c[kind] += int(r>>kind&1) * events
	}
}
