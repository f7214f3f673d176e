package plugin

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	wholeEvent     = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"big","stage":"ResponseComplete","requestObject":{"a":"%s"},"annotations":{"x":"1"}}`
	truncatedEvent = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"big","stage":"ResponseComplete","annotations":{"x":"1","audit.k8s.io/truncated":"true"}}`
	// The same with nothing to take out.
	metadataEvent = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"meta","stage":"ResponseComplete","userAgent":"%s"}`
)

func filled(event string, size int) string {
	return fmt.Sprintf(event, strings.Repeat("x", size-len(event)+len("%s")))
}

// parsedChunk is what Fluent Bit's JSON parser makes of wholeEvent.
func parsedChunk(filler string) []byte {
	str := func(b []byte, s string) []byte {
		b = append(b, 0xdb)
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		return append(b, s...)
	}
	b := []byte{0x92, 0x92, 0xd7, 0x00, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x87}
	for _, kv := range [][2]string{{"kind", "Event"}, {"apiVersion", "audit.k8s.io/v1"}, {"level", "Request"}, {"auditID", "big"}, {"stage", "ResponseComplete"}} {
		b = str(str(b, kv[0]), kv[1])
	}
	b = append(str(b, "requestObject"), 0x81)
	b = str(str(b, "a"), filler)
	b = append(str(b, "annotations"), 0x81)
	return str(str(b, "x"), "1")
}

func TestTruncation(t *testing.T) {
	small, large := filled(wholeEvent, 999), filled(wholeEvent, 1000) // and a line end
	meta := filled(metadataEvent, 5000)
	huge := filled(wholeEvent, 3000000)
	for _, tt := range []struct {
		name  string
		keys  []string
		chunk []byte
		want  []string
		count uint64
	}{
		{"off", nil, chunk(small, large, huge), []string{small, large, huge}, 0},
		{"on, the default size", []string{"Truncate_Enabled", "On"}, chunk(small, large, huge), []string{small, large, truncatedEvent}, 1},
		{"on", []string{"Truncate_Enabled", "On", "Truncate_Max_Event_Size", "1000"}, chunk(small, large, event(1), huge), []string{small, truncatedEvent, event(1), truncatedEvent}, 2},
		{"nothing can be taken out", []string{"Truncate_Enabled", "On", "Truncate_Max_Event_Size", "1000"}, chunk(meta), []string{meta}, 0},
		{"too large all the same", []string{"Truncate_Enabled", "On", "Truncate_Max_Event_Size", "100"}, chunk(large), []string{truncatedEvent}, 1},
		{"a parsed record", []string{"Truncate_Enabled", "On", "Truncate_Max_Event_Size", "1000"}, parsedChunk(strings.Repeat("x", 1000)), []string{truncatedEvent}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{}
				in, log := started(t, r, tt.keys...)
				if answer := flush(in, tt.chunk); answer != OK {
					t.Errorf("answer %d", answer)
				}
				in.Exit()
				r.wantGot(t, tt.want...)
				if n := in.counts.truncated.Load(); n != tt.count || log.count(fmt.Sprintf(" truncated=%d ", tt.count)) != 1 {
					t.Errorf("%d counted as truncated, want %d", n, tt.count)
				}
				checkAccount(t, in, r)
			})
		})
	}
}

func TestAnEventThatIsRefusedForItsSizeGoesOnTruncatedAndIsKeptWhole(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(_ context.Context, _ int, items []string) error {
			for _, item := range items {
				if len(item) > 2000 {
					return status(413)
				}
			}
			return nil
		}}
		in, log := started(t, r, "Dead_Letter_Dir", dir)
		meta := filled(metadataEvent, 5000)
		c := chunk(event(1), filled(wholeEvent, 3000), meta, event(2))
		var want []string
		for i := 0; flush(in, c) != OK; i++ {
			other := event(1000 + i)
			flush(in, chunk(other))
			want = append(want, other)
			time.Sleep(10 * time.Second)
			if i > 100 {
				t.Fatal("the chunk is never done")
			}
		}
		in.Exit()
		r.wantGot(t, append(want, event(1), truncatedEvent, event(2))...)
		if n := log.count("it goes on without its request and response object, marked with the annotation audit.k8s.io/truncated event=big/ResponseComplete bytes=3000 "); n != 1 {
			t.Errorf("%d lines name the truncated event", n)
		}
		if n := log.count("it is set aside and not sent again event=meta/ResponseComplete bytes=5000 "); n != 1 {
			t.Errorf("%d lines name the event that was set aside", n)
		}
		wantSorted(t, "rejected.log", content(t, dir, "rejected.log"), []string{filled(wholeEvent, 3000), meta})
		checkAccount(t, in, r)
	})
}

func TestAWebhookThatRefusesEverythingForItsSizeGetsNothingTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(context.Context, int, []string) error { return status(413) }}
		in, _ := started(t, r)
		var events []string
		for i := range 20 {
			events = append(events, filled(wholeEvent, 500+i))
		}
		c := chunk(events...)
		for range 100 {
			if answer := flush(in, c); answer != Retry {
				t.Fatalf("answer %d, want RETRY", answer)
			}
			time.Sleep(time.Minute)
		}
		r.now(nil)
		for flush(in, c) != OK {
			time.Sleep(time.Second)
		}
		in.Exit()
		r.wantGot(t, events...)
	})
}
