// This file compares what was received with the audit log it came from.

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// shownPerFault is how many events of one fault are named.
const shownPerFault = 10

// verdict is the difference between log and store as multisets of whole events: an
// auditID can occur twice, and so can an event.
type verdict struct {
	in, out, batches          int
	lost, duplicated, altered int
	names                     map[string][]string // by fault, at most shownPerFault
}

// logged is one distinct line of the log.
type logged struct {
	identity
	where string // of its first
	times int
}

// verify compares the events counted so far with the lines of the files that names
// stand for.
//
// A line without an equal event is altered if an event with its auditID and stage is
// left that equals no line, else lost. More equal events than lines are duplicated. An
// event that equals no line and stands for none counts as altered: somebody made it up.
func (t *tally) verify(names []string) (*verdict, error) {
	v := &verdict{names: map[string][]string{}}
	lines := map[sum]*logged{}
	var order []sum
	files, err := filesOf(names)
	if err != nil {
		return nil, fmt.Errorf("-verify: %w", err)
	}
	for _, name := range files {
		err := readLines(name, func(number int, e event) {
			v.in++
			key := t.how.line(e.raw)
			if l := lines[key]; l != nil {
				l.times++
				return
			}
			lines[key] = &logged{e.identity, fmt.Sprintf("%s:%d", name, number), 1}
			order = append(order, key)
		})
		if err != nil {
			return nil, fmt.Errorf("-verify: %w", err)
		}
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	v.out, v.batches = t.counts.events, t.counts.batches
	// Events that equal no line, by what they may stand for.
	strays := map[identity][]*stray{}
	for key, s := range t.got {
		if lines[key] == nil {
			strays[s.identity] = append(strays[s.identity], &stray{key: key, left: s.times})
		}
	}
	for _, of := range strays {
		slices.SortFunc(of, func(a, b *stray) int { return bytes.Compare(a.key[:], b.key[:]) })
	}
	for _, key := range order {
		l, times := lines[key], 0
		if s := t.got[key]; s != nil {
			times = s.times
		}
		for range times - l.times {
			v.duplicated++
			v.name("duplicated", l.identity, l.where)
		}
		for range l.times - times {
			if takeStray(strays[l.identity]) {
				v.altered++
				v.name("altered", l.identity, l.where)
			} else {
				v.lost++
				v.name("lost", l.identity, l.where)
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(strays), identity.compare) {
		for _, s := range strays[id] {
			for range s.left {
				if s.used { // a further copy of an altered event
					v.duplicated++
					v.name("duplicated", id, "")
				} else {
					v.altered++
					v.name("not in the log", id, "")
				}
			}
		}
	}
	return v, nil
}

// stray is a received event that equals no line.
type stray struct {
	key  sum
	left int  // copies that stand for no line yet
	used bool // some copy stands for a line
}

// takeStray lets one copy stand for a line, of an event that stands for none yet if
// there is one.
func takeStray(of []*stray) bool {
	for _, again := range []bool{false, true} {
		for _, s := range of {
			if s.left > 0 && s.used == again {
				s.left--
				s.used = true
				return true
			}
		}
	}
	return false
}

func (v *verdict) name(fault string, id identity, where string) {
	if len(v.names[fault]) >= shownPerFault {
		return
	}
	if where != "" {
		where = " (" + where + ")"
	}
	v.names[fault] = append(v.names[fault], id.String()+where)
}

// report prints the verdict in one line of fixed form, then what it is about. Bodies
// are not shown.
func (v *verdict) report(w io.Writer) {
	fmt.Fprintf(w, "verdict: events in %d, events out %d, batches %d, lost %d, duplicated %d, altered %d\n",
		v.in, v.out, v.batches, v.lost, v.duplicated, v.altered)
	for _, fault := range []string{"lost", "duplicated", "altered", "not in the log"} {
		for _, n := range v.names[fault] {
			fmt.Fprintf(w, "%s: %s\n", fault, n)
		}
	}
}

// filesOf are the files that names stand for: those of that name, or else those that
// match it as a pattern, each once.
func filesOf(names []string) (files []string, err error) {
	for _, name := range names {
		if _, err := os.Stat(name); err == nil {
			files = append(files, name)
			continue
		}
		found, err := filepath.Glob(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: there is no such file", name)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// readLines gives each line of a file that is not empty, gzip or plain.
func readLines(name string, line func(number int, e event)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r = bufio.NewReaderSize(z, 1<<20)
	}
	for number := 1; ; number++ {
		b, err := r.ReadBytes('\n')
		if b = bytes.TrimSpace(b); len(b) > 0 {
			line(number, newEvent(b))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}
