// This file is numbers of events as ranges.

package plugin

import (
	"math"
	"slices"
)

// span is the numbers from From up to but not including To.
type span struct{ From, To int }

// toEnd is the To of a span without end.
const toEnd = math.MaxInt

func contains(spans []span, n int) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.From <= n && n < s.To })
}

// onwards is what spans have from n on; of nil, which stands for everything, too.
func onwards(spans []span, n int) (rest []span) {
	if spans == nil {
		return []span{{n, toEnd}}
	}
	for _, s := range spans {
		if s.To > n {
			rest = append(rest, span{max(s.From, n), s.To})
		}
	}
	return rest
}

// joined is the same numbers in as few spans as possible, in order. The spans do
// not overlap.
func joined(spans []span) (all []span) {
	slices.SortFunc(spans, func(a, b span) int { return a.From - b.From })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && all[last].To == s.From {
			all[last].To = s.To
		} else {
			all = append(all, s)
		}
	}
	return all
}
