// This file counts and tells what was not delivered because it is no audit
// event, and what was repaired on the way.

package plugin

import (
	"context"
	"log/slog"

	"out_k8saudit/plugin/record"
)

// skipLog tells of the records of one chunk that were skipped.
type skipLog struct {
	in  *Instance
	tag string
}

func (s *skipLog) add(skip record.Skip) {
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

// countWalk adds up what a walk met, and warns of what an operator can mend.
func (in *Instance) countWalk(s record.Stats, tag string) {
	for reason, n := range s.Skipped {
		if n > 0 {
			in.counts.skipped[reason].Add(uint64(n))
		}
	}
	in.counts.restored.Add(uint64(s.TimestampsRestored))
	if s.InvalidUTF8 > 0 {
		in.counts.invalidUTF8.Add(uint64(s.InvalidUTF8))
		in.repeats.tell(slog.LevelWarn, "utf8", "events held bytes that are not UTF-8, U+FFFD stands in their place", "tag", tag, "events", s.InvalidUTF8)
	}
	if s.TimestampsLeftOut > 0 {
		in.counts.leftOut.Add(uint64(s.TimestampsLeftOut))
		in.repeats.tell(slog.LevelWarn, "timestamp",
			"events lack the timestamp that the parser took as its time key, and the record's time is not it: set Time_Keep On in the parser, or ship raw lines",
			"tag", tag, "events", s.TimestampsLeftOut)
	}
}
