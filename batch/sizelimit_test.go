package batch

import "testing"

// learnPair has l see a body of that size fail, and its two halves accepted.
func learnPair(l *sizeLimit, size int, at uint64) {
	w := &pair{size: size, part: size/2 + smallestLimit, left: 2, doubt: 7, since: at}
	for range 2 {
		l.accepted(size/2, false, at+1)
		l.partAccepted(w, 0, at+1)
	}
}

func TestASizeIsLearntFromBodiesThatPassInParts(t *testing.T) {
	l := newSizeLimit(1_000_000)
	learnPair(&l, 400_000, 10)
	if l.refused != 0 {
		t.Fatal("one pair is chance")
	}
	learnPair(&l, 300_000, 20)
	if l.refused != 300_000 || l.limit != 150_800 {
		t.Errorf("limit %d, refused %d, want 150800 and 300000", l.limit, l.refused)
	}
}

func TestABodyAsLargeThatIsAcceptedSaysThatSizeWasNotTheReason(t *testing.T) {
	l := newSizeLimit(1_000_000)
	for range 100 {
		w := &pair{size: 300_000, part: 150_800, left: 2, doubt: 7, since: 10}
		l.accepted(150_000, false, 11)
		l.partAccepted(w, 0, 11)
		l.accepted(290_000, false, 12)
		l.accepted(150_000, false, 13)
		l.partAccepted(w, 0, 13)
	}
	if l.refused != 0 || l.limit != 1_000_000 {
		t.Errorf("limit %d, refused %d", l.limit, l.refused)
	}
}

func TestAnOutageInBetweenTeachesNoSize(t *testing.T) {
	l := newSizeLimit(1_000_000)
	for range 100 {
		w := &pair{size: 300_000, left: 1, doubt: 7, outages: 3}
		l.partAccepted(w, 4, 11)
	}
	if l.refused != 0 {
		t.Error("a size was learnt")
	}
}

func TestA413TeachesASizeAtOnceAndLargerOnesAreTriedOneAtATime(t *testing.T) {
	const takes = 120_000
	l := newSizeLimit(1_000_000)
	refused, acceptances := 0, uint64(0)
	for range 5000 {
		size, scout := l.limit, false
		if larger, ok := l.scoutSize(acceptances); ok {
			size, scout = larger, true
			l.scouting = true
			if _, ok := l.scoutSize(acceptances); ok {
				t.Fatal("two scouts at once")
			}
		}
		if size > takes {
			refused++
			l.tooLarge(size, scout, acceptances)
			if scout {
				l.scoutFailed(acceptances)
			}
			continue
		}
		acceptances++
		l.accepted(size, scout, acceptances)
	}
	if l.limit > takes || l.limit < takes*3/4 {
		t.Errorf("limit %d of %d", l.limit, takes)
	}
	if refused > 50 {
		t.Errorf("%d of 5000 bodies refused", refused)
	}
	for range 1000 { // it takes more now
		size, scout := l.limit, false
		if larger, ok := l.scoutSize(acceptances); ok {
			size, scout = larger, true
		}
		acceptances++
		l.accepted(size, scout, acceptances)
	}
	if l.limit != 1_000_000 || l.refused != 0 {
		t.Errorf("the receiver takes all, but limit is %d and refused %d", l.limit, l.refused)
	}
}

func TestTheLargestAcceptedBodiesAreRememberedInAFewEntries(t *testing.T) {
	l := newSizeLimit(1_000_000)
	for i := range 10_000 {
		l.accepted(900_000-i, false, uint64(i))
	}
	if len(l.largest) > maxLargest {
		t.Errorf("%d entries", len(l.largest))
	}
	if !l.acceptedAsLarge(900_000, 9990) || l.acceptedAsLarge(990_000, 9990) || l.acceptedAsLarge(100, 10_000) {
		t.Error("what was accepted lately is not known")
	}
}
