package plugin

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func remembered(c *claims, tag string, chunk []byte, d *delivery) *delivery {
	c.remember(d, tag, chunk)
	return d
}

func TestAClaimNeedsTheSameTagAndBytes(t *testing.T) {
	c := newClaims()
	d := remembered(c, "a", []byte("chunk"), &delivery{taken: true})
	for _, other := range []struct{ tag, chunk string }{{"b", "chunk"}, {"a", "chunk2"}, {"a", "chunk"[:4]}, {"a", "chunK"}, {"ac", "hunk"}} {
		if got := c.claim(other.tag, []byte(other.chunk)); got != nil {
			t.Errorf("tag %q chunk %q claims the delivery of another chunk", other.tag, other.chunk)
		}
	}
	if got := c.claim("a", []byte("chunk")); got != d {
		t.Error("the chunk does not find its delivery")
	}
	if got := c.claim("a", []byte("chunk")); got != nil {
		t.Error("a delivery was claimed twice")
	}
}

func TestEqualChunksClaimADeliveryEachTheFinishedFirst(t *testing.T) {
	c := newClaims()
	running := remembered(c, "a", []byte("chunk"), &delivery{})
	finished := remembered(c, "a", []byte("chunk"), &delivery{taken: true})
	if got := c.claim("a", []byte("chunk")); got != finished {
		t.Error("the finished delivery is not the first to be claimed")
	}
	if got := c.claim("a", []byte("chunk")); got != running {
		t.Error("the running delivery is not the second")
	}
	if waiting, _ := c.counts(); waiting != 0 || len(c.byShape) != 0 {
		t.Errorf("%d deliveries and %d shapes left", waiting, len(c.byShape))
	}
}

func TestDeliveriesThatAreNeverClaimedAreBoundedOldestOutFirst(t *testing.T) {
	c := newClaims()
	c.idle = 100
	for i := range 1000 {
		remembered(c, "a", []byte(event(i)), &delivery{taken: true})
	}
	if waiting, evicted := c.counts(); waiting != 100 || evicted != 900 {
		t.Errorf("%d kept and %d forgotten, want 100 and 900", waiting, evicted)
	}
	if c.claim("a", []byte(event(899))) != nil || c.claim("a", []byte(event(900))) == nil {
		t.Error("it was not the oldest that went")
	}
}

func TestDeliveriesWithEventsInFlightAreNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: sleeping(time.Minute)}
		in, _ := started(t, r, "Request_Timeout", "1h")
		in.claims.idle = 10
		c := chunk(eventRange(0, 5)...)
		if answer := flush(in, c); answer != Retry {
			t.Fatalf("answer %d, want RETRY", answer)
		}
		for i := range 1000 {
			remembered(in.claims, "x", []byte(event(i)), &delivery{taken: true})
		}
		if waiting, _ := in.claims.counts(); waiting > 11 {
			t.Errorf("%d kept, want the 10 allowed and the one in flight", waiting)
		}
		time.Sleep(time.Minute)
		if answer := flush(in, c); answer != OK || r.requests() != 1 {
			t.Errorf("answer %d after %d requests, want OK after 1", answer, r.requests())
		}
		in.Exit()
		r.wantGot(t, eventRange(0, 5)...)
	})
}

func TestAHealthyRunRemembersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		in, _ := started(t, r)
		for i := range 100 {
			flush(in, chunk(event(i)))
		}
		if waiting, _ := in.claims.counts(); waiting != 0 {
			t.Errorf("%d deliveries remembered", waiting)
		}
		in.Exit()
	})
}

func BenchmarkClaimAmongManyRemembered(b *testing.B) {
	for _, n := range []int{1, 1000, maxIdle} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c := newClaims()
			for i := range n {
				remembered(c, "a", []byte(event(i)), &delivery{taken: true})
			}
			chunk := make([]byte, 2<<20)
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				c.remember(&delivery{taken: true}, "a", chunk)
				if c.claim("a", chunk) == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}
