package batch

import (
	"testing"
	"time"
)

// accept has the judge see n batches that were accepted at once, one a second.
func accept(j *judge, n int, now time.Time) time.Time {
	for range n {
		now = now.Add(time.Second)
		j.accepted(evidence{}, true, 0, time.Millisecond, now)
	}
	return now
}

func TestTwoFailuresAmongAcceptancesAreTheBatchsOwn(t *testing.T) {
	start := time.Now()
	j := newJudge(time.Second, start)
	now := accept(&j, 300, start)
	var e evidence
	for k, want := range []struct{ suspect, split, aside bool }{{true, false, false}, {true, true, false}, {true, true, false}, {true, true, false}, {true, true, false}, {true, true, true}} {
		now = accept(&j, 1, now)
		j.count(&e, causeRefusal, false, true, now)
		d := j.doubt(e)
		if isBelow(d, suspectBelow) != want.suspect || isBelow(d, splitBelow) != want.split || isBelow(d, setAsideBelow) != want.aside {
			t.Errorf("after %d failures: suspect %v, split %v, set aside %v, want %v", k+1, isBelow(d, suspectBelow), isBelow(d, splitBelow), isBelow(d, setAsideBelow), want)
		}
	}
}

func TestWhileNothingIsAcceptedNobodyIsAtFault(t *testing.T) {
	start := time.Now()
	j := newJudge(time.Second, start)
	var e evidence
	for range 1000 {
		j.count(&e, causeRefusal, false, false, start.Add(time.Hour))
	}
	if e.failures != 0 || e.tries != 1000 {
		t.Errorf("before anything was accepted: %+v", e)
	}
	now := accept(&j, 100, start.Add(time.Hour))
	e = evidence{counted: j.acceptances}
	for range 1000 {
		now = now.Add(time.Second)
		j.count(&e, causeFailure, false, false, now)
	}
	if e.failures > 1 {
		t.Errorf("in an outage %d failures count, want those of its first moment", e.failures)
	}
}

func TestWhatSaysNothingOfTheBatchDoesNotCount(t *testing.T) {
	start := time.Now()
	j := newJudge(time.Second, start)
	now := accept(&j, 100, start)
	var e evidence
	for range 100 {
		now = accept(&j, 1, now)
		j.count(&e, causeWebhook, false, true, now)
	}
	if e.failures != 0 {
		t.Errorf("%d failures count against the batch", e.failures)
	}
}

func TestOfASingleEventOnlyFailuresRightAfterAnAcceptanceCount(t *testing.T) {
	start := time.Now()
	j := newJudge(time.Second, start)
	now := accept(&j, 100, start)
	var e evidence
	j.count(&e, causeFailure, true, true, now)
	for range 50 { // the webhook has crashed
		j.count(&e, causeFailure, true, j.vouches(), now.Add(time.Second))
	}
	if e.failures != 1 {
		t.Errorf("%d failures count, want the first", e.failures)
	}
}

func TestTheShareOfFailuresIsLearntWithoutFavouringTheQuick(t *testing.T) {
	start := time.Now()
	j := newJudge(time.Second, start)
	// Of a hundred tries in one moment half fail, and are accepted a second later.
	for range 50 {
		j.accepted(evidence{}, true, 0, time.Millisecond, start)
	}
	if j.share != initialShare {
		t.Errorf("the share is %v before those that failed had their second try", j.share)
	}
	for range 50 {
		j.accepted(evidence{failures: 1, tries: 1}, false, 0, time.Millisecond, start.Add(time.Second))
	}
	j.learn(start.Add(3 * time.Second))
	if j.share < 0.15 || j.share > 0.5 {
		t.Errorf("the share is %v, want about a third", j.share)
	}
}

func TestASlowFailureIsSplitIntoMoreParts(t *testing.T) {
	j := newJudge(time.Second, time.Now())
	if n := j.parts(time.Hour); n != 2 {
		t.Errorf("before anything was accepted %d parts", n)
	}
	j.usual = 10 * time.Millisecond
	for failing, want := range map[time.Duration]int{time.Millisecond: 2, 30 * time.Millisecond: 3, 30 * time.Second: 16} {
		if n := j.parts(failing); n != want {
			t.Errorf("failing for %v: %d parts, want %d", failing, n, want)
		}
	}
}
