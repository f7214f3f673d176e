package batch

import (
	"slices"
	"testing"
	"time"
)

// waitingBatch is a batch of n events.
func waitingBatch(id uint64, n int) *pendingBatch {
	v := viewOf(eventRange(0, n)...)
	return newBatch(id, v)
}

// vouching is a judge of a webhook that has just accepted something.
func vouching(now time.Time) *judge {
	j := newJudge(time.Second, now)
	j.trialsMayGo = true
	return &j
}

// goes takes batches out of q, as long as one may go, and returns their numbers, 0 for fresh
// events.
func goes(q *queue, j *judge, now time.Time, fresh bool, most int) (ids []uint64) {
	for range most {
		switch t, _ := q.next(now, j, fresh); {
		case t.fresh:
			ids = append(ids, 0)
			q.sent(&pendingBatch{}, now)
		case t.failed != nil:
			ids = append(ids, t.failed.id)
			q.remove(t.failed)
			q.sent(t.failed, now)
			q.returned(t.failed)
		default:
			return ids
		}
	}
	return ids
}

func TestFreshEventsRetriesAndSuspectsTakeTurns(t *testing.T) {
	now := time.Now()
	q := newQueue(4)
	for id := uint64(1); id <= 3; id++ {
		retry, part := waitingBatch(id, 2), waitingBatch(10+id, 2)
		retry.firstFailed, part.firstFailed = now, now
		part.suspect = true
		q.add(retry, now)
		q.add(part, now)
	}
	got := goes(q, vouching(now), now, true, 9)
	kinds := map[string]int{}
	for i, id := range got {
		switch {
		case id == 0:
			kinds["fresh"]++
		case id < 10:
			kinds["retry"]++
		default:
			kinds["suspect"]++
		}
		if i%3 == 2 && (kinds["fresh"] != i/3+1 || kinds["retry"] != i/3+1 || kinds["suspect"] != i/3+1) {
			t.Fatalf("after %d turns %v", i+1, kinds)
		}
	}
}

func TestNothingGoesBeforeItIsDue(t *testing.T) {
	now := time.Now()
	q := newQueue(4)
	p := waitingBatch(1, 2)
	p.due = now.Add(time.Minute)
	q.add(p, now)
	if got := goes(q, vouching(now), now.Add(time.Minute-1), false, 9); got != nil {
		t.Errorf("%v went", got)
	}
	if _, again := q.next(now, vouching(now), false); !again.Equal(p.due) {
		t.Errorf("asked again at %v, want %v", again, p.due)
	}
	if got := goes(q, vouching(now), now.Add(time.Minute), false, 9); !slices.Equal(got, []uint64{1}) {
		t.Errorf("%v went", got)
	}
}

func TestSuspectsThatHangHoldAQuarterOfTheSlots(t *testing.T) {
	for slots, want := range map[int]int{4: 1, 8: 2, 16: 4, 1: 1, 2: 1} {
		now := time.Now()
		q := newQueue(slots)
		for id := range uint64(20) {
			p := waitingBatch(id+1, 2)
			p.suspect, p.took = true, 30*time.Second
			q.add(p, now)
		}
		under := 0
		for {
			turn, _ := q.next(now, vouching(now), false)
			if turn.failed == nil {
				break
			}
			q.remove(turn.failed)
			q.sent(turn.failed, now)
			under++
		}
		if under != want {
			t.Errorf("%d of %d slots", under, slots)
		}
	}
}

func TestWithFewSlotsWhatHangsRestsInBetween(t *testing.T) {
	for slots, rest := range map[int]time.Duration{1: 90 * time.Second, 2: 30 * time.Second, 4: 0} {
		now := time.Now()
		q := newQueue(slots)
		q.tookToFail(30*time.Second, now)
		p := waitingBatch(1, 2)
		p.suspect, p.took = true, 30*time.Second
		q.add(p, now)
		_, again := q.next(now, vouching(now), false)
		if rest == 0 {
			continue
		}
		if !again.Equal(now.Add(rest)) {
			t.Errorf("%d slots: it goes after %v, want %v", slots, again.Sub(now), rest)
		}
	}
}

func TestSingleSuspectsAreTriedOneAtATimeRightAfterAnAcceptance(t *testing.T) {
	now := time.Now()
	q := newQueue(4)
	for id := range uint64(3) {
		p := waitingBatch(id+1, 1)
		p.suspect, p.tries, p.failures = true, 3, int(id)
		q.add(p, now)
	}
	j := vouching(now)
	turn, _ := q.next(now, j, true)
	if turn.failed == nil || turn.failed.id != 3 {
		t.Fatalf("%+v goes, want the most refused one, before fresh events", turn)
	}
	q.remove(turn.failed)
	q.sent(turn.failed, now)
	if turn, _ := q.next(now, j, true); !turn.fresh {
		t.Error("two of them at once")
	}
	q.returned(turn.failed)
	j.failuresRow = 1
	if turn, _ := q.next(now, j, true); !turn.fresh {
		t.Error("one goes although the last answer was a failure")
	}
	turn, again := q.next(now, j, false)
	if turn.failed != nil || !again.Equal(j.lastAccepted.Add(patience)) {
		t.Errorf("%+v, again after %v", turn, again.Sub(now))
	}
	if turn, _ := q.next(now.Add(patience), j, false); turn.failed == nil {
		t.Error("with nothing else to send none goes, ever")
	}
}

func TestSmallRunsJoinAndLargeOnesGoAsTheyAre(t *testing.T) {
	var f freshEvents
	now := time.Now()
	for _, n := range []int{3, 1, 1, 4, 2} {
		f.add(viewOf(eventRange(0, n)...), true, now)
	}
	var got []int
	for f.events > 0 {
		n := 0
		for _, v := range f.cut(4, 1<<20) {
			n += v.len()
		}
		got = append(got, n)
	}
	if want := []int{4, 1, 4, 2}; !slices.Equal(got, want) {
		t.Errorf("batches of %v, want %v", got, want)
	}
	if f.bytes != 0 || f.due != 0 {
		t.Errorf("%d bytes and %d events left", f.bytes, f.due)
	}
}
