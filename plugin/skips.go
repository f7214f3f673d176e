// This file counts and tells what was not delivered because it is no audit
// event, and what was repaired on the way.

package plugin

import (
	"context"
	"log/slog"
	"math/bits"

	"out_k8saudit/plugin/ledger"
	"out_k8saudit/plugin/record"
)

// skipLog tells of the records of one chunk that were skipped.
type skipLog struct {
	in    *Instance
	chunk []byte
	tag   string
	id    ledger.ID // of the chunk; zero before the first skip
}

func (s *skipLog) begin(chunk []byte, tag string) {
	s.chunk, s.tag, s.id = chunk, tag, ledger.ID{}
}

// isFirst says whether that was not told of when the chunk was read before.
func (s *skipLog) isFirst(skip record.Skip) bool {
	if s.id == (ledger.ID{}) {
		s.id = s.in.ledger.Identify(s.chunk)
	}
	id := s.id
	id[0] ^= uint64(skip.Offset)
	id[1] ^= uint64(skip.Item)
	return s.in.reported.First(id)
}

func (s *skipLog) add(skip record.Skip) {
	if !s.isFirst(skip) {
		return
	}
	s.in.counts.skipped[skip.Reason].Add(1)
	s.in.skipped(skip, s.tag)
	attrs := []any{"reason", skip.Reason, "tag", s.tag, "offset", skip.Offset, "bytes", len(skip.Raw)}
	if skip.Reason == record.Panicked {
		s.in.log.Log(context.Background(), slog.LevelError, "reading a record panicked, it is skipped; please report this",
			append(attrs, "panic", skip.Panic, "stack", string(skip.Stack))...)
		return
	}
	text := "a record is no audit event, it is skipped"
	switch skip.Reason {
	case record.Broken:
		text = "a chunk is cut off or damaged, its rest cannot be read"
	case record.NotJSON:
		text = "a raw line is not valid JSON, it is skipped: is the input cutting lines (Truncate_Long_Lines)?"
	case record.OtherKind:
		text = "a record is of another kind or apiVersion than audit.k8s.io/v1, it is skipped"
	}
	s.in.repeats.tell(slog.LevelWarn, skip.Reason.String(), text, attrs...)
}

// countRepairs adds up what was repaired in events that were submitted, and warns of
// what an operator can mend.
func (in *Instance) countRepairs(n *repairCounts) {
	if *n == (repairCounts{}) {
		return
	}
	of := func(kind repair) int { return n[bits.TrailingZeros8(uint8(kind))] }
	in.counts.restored.Add(uint64(of(timestampRestored)))
	in.counts.truncated.Add(uint64(of(truncatedBefore)))
	if events := of(replacedUTF8); events > 0 {
		in.counts.invalidUTF8.Add(uint64(events))
		in.repeats.tell(slog.LevelWarn, "utf8", "events held bytes that are not UTF-8, U+FFFD stands in their place", "events", events)
	}
	if events := of(timestampLeftOut); events > 0 {
		in.counts.leftOut.Add(uint64(events))
		in.repeats.tell(slog.LevelWarn, "timestamp",
			"events lack the timestamp that the parser took as its time key, and the record's time is not it: set Time_Keep On in the parser, or ship raw lines",
			"events", events)
	}
}
