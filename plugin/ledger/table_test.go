// Tests of the table: what it keeps while it grows, and the memory that it takes.

package ledger

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestATableThatGrowsKeepsEachEntry holds the table against a map, with IDs anywhere, IDs
// that crowd its first lines, and IDs that go on from its last line at the first one.
func TestATableThatGrowsKeepsEachEntry(t *testing.T) {
	for name, first := range map[string]func(r *rand.Rand) uint64{
		"anywhere":            (*rand.Rand).Uint64,
		"in the first lines":  func(r *rand.Rand) uint64 { return r.Uint64N(math.MaxUint64 / 4096) },
		"in the last line":    func(r *rand.Rand) uint64 { return math.MaxUint64 - r.Uint64N(math.MaxUint64/4096) },
		"at both of the ends": func(r *rand.Rand) uint64 { return r.Uint64N(math.MaxUint64/2048) - math.MaxUint64/4096 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			table := newTable()
			defer table.close()
			want := map[ID]mark{}
			var all []ID
			for range 3 * minLines {
				id := ID{first(r), uint64(r.Uint32() &^ markMask)}
				if _, known := want[id]; known {
					continue
				}
				m := []mark{inFlight, doneEven, doneOdd}[r.IntN(3)]
				table.insert(id, m)
				all, want[id] = append(all, id), m
				if r.IntN(4) == 0 {
					gone := all[r.IntN(len(all))]
					if s, ok := table.find(gone); ok {
						table.remove(s)
						delete(want, gone)
					}
				}
			}
			for range 4 {
				table.grow()
				compare(t, &table, want, all)
			}
			for id := range want {
				s, _ := table.find(id)
				table.remove(s)
				delete(want, id)
			}
			for i, l := range table.lines {
				if l.state != 0 {
					t.Fatalf("line %d of the empty table has state %#x", i, l.state)
				}
			}
		})
	}
}

func compare(t *testing.T, table *table, want map[ID]mark, all []ID) {
	t.Helper()
	inFlights := 0
	for _, id := range all {
		m, in := want[id]
		s, found := table.find(id)
		if found != in || in && table.mark(s) != m {
			t.Fatalf("%d lines: %x is found: %v, want %v with mark %d", len(table.lines), id, found, in, m)
		}
		if m == inFlight {
			inFlights++
		}
	}
	if table.used != len(want) || table.inFlight != inFlights {
		t.Errorf("%d entries, %d in flight; want %d, %d", table.used, table.inFlight, len(want), inFlights)
	}
}

func TestLinesThatOutgrowTheirAddressesMoveWithWhatTheyHave(t *testing.T) {
	lines := newLines(8)
	for i := range lines {
		lines[i].state = uint32(i + 1)
	}
	lines = extend(lines, cap(lines)+1)
	defer freeLines(lines)
	for i := range 8 {
		if lines[i].state != uint32(i+1) {
			t.Errorf("line %d has state %d, want %d", i, lines[i].state, i+1)
		}
	}
	if l := lines[len(lines)-1]; l != (line{}) {
		t.Errorf("a new line is %+v, want zeros", l)
	}
}

func TestASmallTableTakesLittleMemory(t *testing.T) {
	before := anonymous(t)
	tables := make([]table, 16)
	for i := range tables {
		tables[i] = newTable()
		defer tables[i].close()
		for n := range uint64(1000) {
			tables[i].insert(ID{n << 54, n << 8}, inFlight)
		}
	}
	if each := (anonymous(t) - before) / len(tables); each > 256<<10 {
		t.Errorf("a table of 1,000 entries takes %d bytes, want at most 256 KiB", each)
	}
}

// anonymous is what the process has of anonymous memory.
func anonymous(t *testing.T) (bytes int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}
