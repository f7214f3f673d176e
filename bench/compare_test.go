package main

import (
	"slices"
	"testing"
)

func TestCostsAreHeldAgainstEachOtherTurnByTurn(t *testing.T) {
	c := comparison{scenario: "Metadata", form: "raw", target: 0.33, steps: []step{floor, {what: "checked"}, {what: "hashed", plugin: true}}}
	turns := []turn{
		{cpu: []float64{1, 2, 3}},
		{cpu: []float64{2, 4, 5}},
		{cpu: []float64{1.5, 2.5, 3.5}}, // 0.5, 0.25, 0.25 of http
		{cpu: []float64{1.1, 2.2, 3.2}}, // 0.1 of http
		{cpu: []float64{1.3, 2.6, 3.6}}, // 0.3
		{cpu: []float64{1.6, 3.2, 4.2}}, // 0.6
	}
	got := c.row(turns)
	want := row{
		scenario: "Metadata", form: "raw", base: "2.000 s", peer: "2.000 s", plugin: "0.500 s",
		ratio: "0.25 (0.25–0.38)", target: "≤ 0.33, met", floor: "0.10 (0.10–0.10)",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	steps := []stepRow{
		{"Metadata", "raw", floor.what, "0.10 (0.10–0.10)"},
		{"Metadata", "raw", "checked", "0.30 (0.30–0.30)"},
		{"Metadata", "raw", "the plugin", "0.25 (0.25–0.38)"},
		{"Metadata", "raw", "hashed", "0.60 (0.60–0.60)"},
	}
	if got := c.stepRows(turns); !slices.Equal(got, steps) {
		t.Errorf("got  %v\nwant %v", got, steps)
	}
}

func TestARunThatLostAnEventFails(t *testing.T) {
	c := comparison{input: input{events: 400, chunks: 40}, pluginKeys: []string{"Mode batch"}}
	for _, r := range []struct {
		output string
		got    counts
		ok     bool
	}{
		{"null", counts{}, true},
		{"http", counts{Bodies: 38, Events: 400}, true},
		{"http", counts{Bodies: 37, Events: 400}, false},
		{"http", counts{Bodies: 41, Events: 400}, false},
		{"k8saudit", counts{Bodies: 1, Events: 400}, true},
		{"k8saudit", counts{Bodies: 2, Events: 399}, false},
		{"k8saudit", counts{Bodies: 2, Events: 401}, false},
		{"floor", counts{Bodies: 37, Events: 400}, false},
	} {
		if err := c.complete(pipeline{output: r.output, input: c.input}, r.got); (err == nil) != r.ok {
			t.Errorf("%s, %+v: %v", r.output, r.got, err)
		}
	}
}
