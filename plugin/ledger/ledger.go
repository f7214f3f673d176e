package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/minio/highwayhash"
)

// This file is the Ledger: what is asked of it, and when it forgets.

// State is what the ledger knows of an event.
type State uint8

const (
	New State = iota
	InFlight
	Done
)

// Options are the settings of a Ledger.
type Options struct {
	Dir    string // State_Dir; "": what is remembered ends with the process
	Name   string // of the files in Dir: the output's; lower-case letters, digits and hyphens
	Window int    // Duplicate_Window, above 0

	// Warn is told what an operator should know: a text that is always the same for the
	// same fault, and attributes as log/slog takes them. It is called without a lock,
	// from the goroutine whose call met the fault, and must not call the Ledger.
	Warn func(text string, attrs ...any)
}

const (
	// minAge is how old a generation is at least when it turns: older than a chunk
	// that waits for its retry (31 s with the shipped scheduler.cap) or a rotated file
	// that is read again.
	minAge = time.Minute

	// maxWindows is how many windows of events are remembered in a generation, whatever its
	// age.
	maxWindows = 8
)

// Ledger remembers events. Its methods may be called from any goroutine. Only Open,
// Done, Configure and Close wait for the disk; the look-ups never do, but they may wait
// some milliseconds while the table grows or a generation ends.
type Ledger struct {
	key [32]byte // of the identities

	// saving is held while the journal is written, and with mu for turning a
	// generation: table and journal always turn together.
	saving  sync.Mutex
	journal *journal // nil: none
	name    string
	warn    func(text string, attrs ...any)
	entries []byte // for Done

	mu         sync.Mutex // guards all below; never held during a write
	window     int
	table      table
	generation uint64 // the younger one
	began      time.Time
	count      int // events that became done in it
	size       int // events in it, with those that moved to it
	hold       bool
	closed     bool
}

// Open returns the ledger of an output. If another process has its files, it waits a
// few seconds for them. On error nothing is left behind.
func Open(o Options) (*Ledger, error) {
	l := &Ledger{name: o.Name, window: o.Window, warn: o.Warn, table: newTable(), generation: 1, began: time.Now()}
	// Cannot fail: crypto/rand.Read aborts the process instead.
	_, _ = rand.Read(l.key[:])
	if o.Dir == "" {
		return l, nil
	}
	j, err := openJournal(o.Dir, o.Name)
	if err != nil {
		l.table.close()
		return nil, err
	}
	if err := l.load(j); err != nil {
		j.close()
		l.table.close()
		return nil, fmt.Errorf("State_Dir %q: %w", o.Dir, err)
	}
	return l, nil
}

// load takes what the journal's files have, and the journal.
func (l *Ledger) load(j *journal) error {
	damaged, err := j.begin(&l.key, &l.generation)
	if err != nil {
		return err
	}
	l.journal = j
	limit := 2 * maxWindows * l.window   // a file that was written anew has both generations
	for _, age := range []uint64{1, 0} { // the older generation first
		generation := l.generation - age
		err := j.read(generation, limit, func(id ID) {
			s, known := l.table.find(id)
			switch {
			case !known && l.table.isCrowded(id):
				return // no hash does that: it is no entry of a ledger
			case !known:
				l.table.insert(id, doneIn(generation))
			case l.table.mark(s) != doneIn(generation):
				l.table.setMark(s, doneIn(generation))
			default:
				return
			}
			if age == 0 {
				l.count++
				l.size++
			}
		})
		if err != nil {
			return err
		}
	}
	for _, err := range damaged {
		l.warn("a file of State_Dir cannot be used: events that it had as delivered may be sent again", "error", err)
	}
	return nil
}

// Identify returns the identity of an event, of which text is what was read.
func (l *Ledger) Identify(text []byte) ID {
	sum := highwayhash.Sum128(text, l.key[:])
	return ID{binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:])}
}

// Reserve says for each ID what is known of it, in states, which is as long as ids, and
// makes those that are New in flight: they are the caller's to deliver. An ID that is
// among ids twice is New once. After Close nothing is New.
func (l *Ledger) Reserve(ids []ID, states []State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		for i := range states {
			states[i] = InFlight
		}
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), runLength)
		l.table.touch(ids[:n])
		for i, id := range ids[:n] {
			s, known := l.table.find(id)
			if states[i] = l.stateOf(s, known); !known {
				l.table.insert(id, inFlight)
			}
		}
		ids, states = ids[n:], states[n:]
	}
}

// AllDone says whether every one of ids is done.
func (l *Ledger) AllDone(ids []ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := true
	l.lookUp(ids, func(_ int, s slot, known bool) {
		all = all && l.stateOf(s, known) == Done
	})
	return all
}

// Release forgets those of ids that are in flight: they were not delivered, and are New
// when they come again.
func (l *Ledger) Release(ids []ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookUp(ids, func(_ int, s slot, known bool) {
		if known && l.table.mark(s) == inFlight {
			l.table.remove(s)
		}
	})
}

// Hold(true) keeps the younger generation from ending before it has eight windows;
// Hold(false) lets it end as usual. After an outage, what was read twice comes in no order,
// and its two copies may be as far apart as the backlog is long.
func (l *Ledger) Hold(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
}

// Done remembers that the events are dealt with, in memory and in State_Dir. IDs that were
// never reserved become done too. It blocks while the disk takes them. A disk that does not
// is warned of, and costs no event. It keeps nothing of ids, and does nothing after Close.
func (l *Ledger) Done(ids []ID) {
	var warnings []warning
	l.saving.Lock()
	defer func() {
		warn := l.warn
		l.saving.Unlock()
		for _, w := range warnings {
			warn(w.text, w.attrs...)
		}
	}()

	now := time.Now()
	l.mu.Lock()
	l.lookUp(ids, func(i int, s slot, known bool) {
		if known && l.table.mark(s) == inFlight {
			l.table.setMark(s, doneIn(l.generation))
		} else if !known && !l.closed {
			l.table.insert(ids[i], doneIn(l.generation))
		} else {
			return
		}
		l.count++
		l.size++
	})
	turns, remembers := l.isOver(now)
	var old []byte
	if turns {
		old = l.turn(now)
	}
	l.mu.Unlock()

	if remembers > 0 {
		warnings = append(warnings, warning{"Duplicate_Window is too small for so many events: what comes again later than remembered_for is sent again; raise it",
			[]any{"remembered_for", remembers.Round(time.Second), "events", maxWindows * l.window}})
	}
	if l.journal == nil {
		return
	}
	l.entries = l.entries[:0]
	for _, id := range ids {
		l.entries = appendEntry(l.entries, id)
	}
	l.entries = append(l.entries, old...)
	err := l.journal.append(l.entries)
	if turns {
		err = l.journal.turn(l.generation, err)
	}
	if cap(l.entries) > 1<<20 {
		l.entries = nil
	}
	if w, ok := l.journal.mend(now, err, l.everything); ok {
		warnings = append(warnings, w)
	}
}

type warning struct {
	text  string
	attrs []any
}

// lookUp calls do for each of ids, in order, with its place in the table.
func (l *Ledger) lookUp(ids []ID, do func(i int, s slot, known bool)) {
	if l.closed {
		for i := range ids {
			do(i, slot{}, false)
		}
		return
	}
	for from := 0; from < len(ids); from += runLength {
		run := ids[from:min(from+runLength, len(ids))]
		l.table.touch(run)
		for i, id := range run {
			s, known := l.table.find(id)
			do(from+i, s, known)
		}
	}
}

// stateOf is the state of a look-up's entry, which moves to the younger generation.
func (l *Ledger) stateOf(s slot, known bool) State {
	switch {
	case l.closed:
		return InFlight
	case !known:
		return New
	}
	switch m := l.table.mark(s); {
	case m == inFlight:
		return InFlight
	case m&^moved != doneIn(l.generation):
		l.table.setMark(s, doneIn(l.generation)|moved)
		l.size++
	}
	return Done
}

// isOver says whether the younger generation is to end. remembers is how old it is if
// it ends only because of its size, while what it has may still come again; else 0.
func (l *Ledger) isOver(now time.Time) (is bool, remembers time.Duration) {
	age := now.Sub(l.began)
	switch {
	case age >= minAge && l.count >= max(1, l.window/2) && !l.hold:
		return true, 0
	case l.size >= maxWindows*l.window:
		return true, max(age, 1)
	}
	return false, 0
}

// turn forgets the older generation and begins another one. It returns, as journal
// entries, what has moved to the one that is the older one now.
func (l *Ledger) turn(now time.Time) (entries []byte) {
	ended, forgotten := doneIn(l.generation), doneIn(l.generation+1)
	l.table.each(func(s slot, id ID, m mark) {
		switch m {
		case forgotten, forgotten | moved:
			l.table.remove(s)
		case ended | moved:
			l.table.setMark(s, ended)
			entries = appendEntry(entries, id)
		}
	})
	l.generation++
	l.began, l.count, l.size = now, 0, 0
	return entries
}

// everything is all that is done, as journal entries.
func (l *Ledger) everything() (entries []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries = make([]byte, 0, entrySize*(l.table.used-l.table.inFlight))
	l.table.each(func(_ slot, id ID, m mark) {
		if m != inFlight {
			entries = appendEntry(entries, id)
		}
	})
	return entries
}

// Configure gives a ledger that is handed on after a reload the settings of the output
// that goes on with it. What is remembered stays. In another folder it makes the files of
// this ledger anew, whatever they had. It blocks as Open does. After an error the ledger is
// as before.
func (l *Ledger) Configure(o Options) error {
	l.saving.Lock()
	defer l.saving.Unlock()
	dir := ""
	if l.journal != nil {
		dir = l.journal.dir
	}
	if isSameFolder(o.Dir, dir) {
		if l.journal != nil {
			l.journal.dir = o.Dir
		}
	} else {
		var j *journal
		if o.Dir != "" {
			var err error
			if j, err = openJournal(o.Dir, l.name); err != nil {
				return err
			}
			if err := j.restart(l.key, l.generation, l.everything()); err != nil {
				j.close()
				return fmt.Errorf("State_Dir %q: %w", o.Dir, err)
			}
		}
		if l.journal != nil {
			l.journal.close()
		}
		l.journal = j
	}
	l.warn = o.Warn
	l.mu.Lock()
	l.window, l.hold = o.Window, false
	l.mu.Unlock()
	return nil
}

// isSameFolder says whether two names, either of which may be empty, name one folder.
func isSameFolder(a, b string) bool {
	if a == b {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// Close gives memory and files back. Look-ups after it find everything in flight, so
// that a flush that is still under way answers for nothing. It may be called again.
func (l *Ledger) Close() {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.table.close()
	}
	l.mu.Unlock()
	if l.journal != nil {
		l.journal.close()
		l.journal = nil
	}
}

// Count is how many events are remembered as done, and how many are in flight.
func (l *Ledger) Count() (done, inFlight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.used - l.table.inFlight, l.table.inFlight
}
