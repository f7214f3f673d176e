// This file is what becomes of what cannot be delivered: files in Dead_Letter_Dir,
// or lines in the log that name it.

package plugin

import (
	"fmt"
	"log/slog"

	"out_k8saudit/plugin/deadletter"
	"out_k8saudit/plugin/ledger"
	"out_k8saudit/plugin/record"
)

// openDeadLetters opens the folder, if there is to be one.
func (in *Instance) openDeadLetters() (err error) {
	if in.cfg.DeadLetterDir == "" {
		return nil
	}
	in.dead, err = deadletter.Open(in.cfg.DeadLetterDir, func(name string, bytes int64) {
		in.log.Warn("a file of Dead_Letter_Dir was removed to make room", "file", name, "bytes", bytes)
	})
	if err != nil {
		return fmt.Errorf("Dead_Letter_Dir %q: %w", in.cfg.DeadLetterDir, err)
	}
	return nil
}

// rejected keeps an event that is set aside, or says that it cannot. An auditor
// will ask for it, so it is named in the log in either case.
func (in *Instance) rejected(id ledger.ID, event []byte, err error) bool {
	to := "nowhere: set Dead_Letter_Dir to keep such events"
	if in.dead != nil {
		if failure := in.dead.Reject(event); failure != nil {
			in.repeats.tell(slog.LevelError, "reject", "an event that the webhook refuses for good cannot be written to Dead_Letter_Dir: it is tried again", "error", failure)
			return false
		}
		to = in.cfg.DeadLetterDir
	}
	in.log.Error("the webhook refuses this event for good: it is set aside and not sent again", "event", eventID(event), "bytes", len(event), "error", err, "kept_in", to)
	in.ledger.Done([]ledger.ID{id})
	return true
}

// skipped keeps what was not understood.
func (in *Instance) skipped(s record.Skip, tag string) {
	if in.dead == nil {
		return
	}
	raw := s.Raw
	if s.Line != nil {
		raw = s.Line
	}
	if err := in.dead.Skip(deadletter.Skipped{Tag: tag, Reason: s.Reason.String(), Raw: raw}); err != nil {
		in.repeats.tell(slog.LevelError, "skip", "what was skipped cannot be written to Dead_Letter_Dir", "error", err)
	}
}
