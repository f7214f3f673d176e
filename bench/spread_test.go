package main

import "testing"

func TestASpreadIsTheMedianBetweenItsQuartiles(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, "0.00"},
		{[]float64{0.5}, "0.50"},
		{[]float64{2, 1}, "1.50 (1.25–1.75)"},
		{[]float64{5, 1, 4, 2, 3}, "3.00 (2.00–4.00)"},
	} {
		if got := spreadOf(c.values).String(); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}
