package main

import (
	"fmt"
	"slices"
)

// This file says what several runs of the same came to.

// spread is a median and the quartiles around it.
type spread struct {
	low, median, high float64
	n                 int
}

// spreadOf returns zeros for no values.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	return spread{quantile(v, 0.25), quantile(v, 0.5), quantile(v, 0.75), len(v)}
}

// quantile interpolates between the two nearest of sorted values.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// String shows the quartiles where there is more than one value.
func (s spread) String() string {
	if s.n < 2 {
		return fmt.Sprintf("%.2f", s.median)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median, s.low, s.high)
}

// signed shows a difference.
func (s spread) signed() string {
	if s.n < 2 {
		return fmt.Sprintf("%+.2f", s.median)
	}
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f)", s.median, s.low, s.high)
}
