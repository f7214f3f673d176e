// This file makes events smaller: those above Truncate_Max_Event_Size before they
// are sent, and single ones that the webhook refuses for their size.

package plugin

import (
	"out_k8saudit/plugin/truncate"
)

// truncated returns the event made smaller, if it is too large and that is possible. One
// that is larger all the same is sent; kube-apiserver drops it.
func (in *Instance) truncated(event []byte) (smaller []byte, ok bool) {
	if truncate.Size(event) <= in.cfg.TruncateAbove {
		return nil, false
	}
	return truncate.Event(nil, event)
}

// shrink makes a single event smaller that was refused for its size, whatever
// Truncate_Enabled says: it cannot be delivered otherwise.
func (in *Instance) shrink(event []byte) []byte {
	smaller, ok := truncate.Event(nil, event)
	if !ok {
		return nil
	}
	return smaller
}

// shrunk logs that an event goes on truncated, by name. The whole one, which was
// refused for good, is kept where there is a place for it.
func (in *Instance) shrunk(event []byte, err error) {
	in.counts.truncated.Add(1)
	if in.dead != nil {
		if failure := in.dead.Reject(event); failure != nil {
			in.log.Error("an event that goes on truncated cannot be written whole to Dead_Letter_Dir", "event", eventID(event), "error", failure)
		}
	}
	in.log.Warn("the webhook refuses this event for its size: it goes on without its request and response object, marked with the annotation audit.k8s.io/truncated",
		"event", eventID(event), "bytes", len(event), "error", err)
}
