package main

import "testing"

func TestCostsAreHeldAgainstEachOtherTurnByTurn(t *testing.T) {
	c := comparison{scenario: "Metadata", form: "raw", target: 0.33, floor: true}
	got := c.row([]turn{
		{cpu: []float64{1, 2, 3}},
		{cpu: []float64{2, 4, 5}},
		{cpu: []float64{1.5, 2.5, 3.5}}, // 0.5, 0.25, 0.25 of http
		{cpu: []float64{1.1, 2.2, 3.2}}, // 0.1 of http
	})
	want := row{
		scenario: "Metadata", form: "raw", base: "2.000 s", peer: "2.000 s", plugin: "0.500 s",
		ratio: "0.25 (0.25–0.38)", target: "≤ 0.33, met", floor: "0.10 (0.10–0.10)",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
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
		if err := c.complete(r.output, r.got); (err == nil) != r.ok {
			t.Errorf("%s, %+v: %v", r.output, r.got, err)
		}
	}
}
