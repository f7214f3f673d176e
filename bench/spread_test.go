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

func TestADifferenceHasASign(t *testing.T) {
	for want, values := range map[string][]float64{"+0.50": {0.5}, "-0.25 (-0.62 to +0.12)": {0.5, -1}} {
		if got := spreadOf(values).signed(); got != want {
			t.Errorf("%v: %q, want %q", values, got, want)
		}
	}
}
