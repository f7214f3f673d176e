package ledger

import "testing"

func TestAReportIsFirstOnce(t *testing.T) {
	var r Reported
	for i := range uint64(reportedPerGeneration) {
		if !r.First(ID{i, 1}) || r.First(ID{i, 1}) || !r.First(ID{i, 2}) || r.First(ID{i, 1}) {
			t.Fatalf("report %d is not first once", i)
		}
	}
	if n := len(r.younger) + len(r.older); n > 2*reportedPerGeneration {
		t.Errorf("%d are remembered", n)
	}
	r.First(ID{0, 3})
	if !r.First(ID{0, 1}) || r.First(ID{reportedPerGeneration - 1, 1}) {
		t.Error("not the first ones were forgotten")
	}
}
