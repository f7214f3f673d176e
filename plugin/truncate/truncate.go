// Package truncate makes an audit event smaller as kube-apiserver's truncating
// backend does (k8s.io/apiserver/plugin/pkg/audit/truncate): without
// requestObject and responseObject, and with an annotation that says so. It
// works on the bytes of the event, and leaves the others as they are.
package truncate

import "bytes"

// What the annotation is and which levels have objects to remove is taken from
// truncate.go of that backend, the names from audit.k8s.io/v1.
const (
	keyLevel          = "level"
	keyRequestObject  = "requestObject"
	keyResponseObject = "responseObject"
	keyAnnotations    = "annotations"
	keyTruncated      = "audit.k8s.io/truncated"

	levelRequest         = "Request"
	levelRequestResponse = "RequestResponse"
)

var (
	openBrace  = []byte("{")
	closeBrace = []byte("}")
	comma      = []byte(",")
	null       = []byte("null")

	namedAnnotations = []byte(`"` + keyAnnotations + `":`)
	truncated        = []byte(`"true"`)
	namedTruncated   = []byte(`"` + keyTruncated + `":"true"`)
)

// Size is what kube-apiserver compares with --audit-webhook-truncate-max-event-size,
// in bytes: an event larger than that is truncated. It is the event as a line of
// the audit log, with kind, apiVersion and line feed, also where it is sent
// without them. Of an event that another hand wrote it is the size as written:
// kube-apiserver's differs where there is white space, where characters are
// escaped in another way, and by 46 bytes where kind and apiVersion are missing.
func Size(event []byte) int { return len(event) + 1 }

// Event appends the truncated event to dst, or to a copy of it, allocated at the
// size that is needed, if dst has no room. event is one JSON object in UTF-8
// without white space around it, as package record yields it; given anything
// else Event may panic. It is not written to.
//
// Every requestObject and responseObject at the top goes, with a comma and the
// white space around it, and so does the white space in {}. The annotation audit.k8s.io/truncated is set to "true"
// where it is, or is added as the last one; annotations that are missing are
// added as the last of the event. kube-apiserver writes annotations sorted by
// name; in their order alone the two differ. All else stays byte for byte.
// Names are compared as decoded, upper and lower case as they are. Where
// annotations occur twice each of them gets the annotation, so that it does not
// matter which one a reader takes.
//
// ok is false, and dst returned as it was, if truncating does not help:
//   - The level is neither Request nor RequestResponse. kube-apiserver truncates
//     no such event, whatever it holds; nor do we one without a level. Of
//     several levels the last counts, as in its decoder, which passes over null.
//   - The event would not become smaller, because it has no such objects, or
//     none larger than the annotation. kube-apiserver truncates it and finds it
//     too large still.
//   - Its annotations are neither an object nor null. There is no place for the
//     annotation, and nothing is taken from an event without saying so.
//
// kube-apiserver drops an event whose Size is too large still, or which is too
// large and cannot be truncated. Here that is for the caller to decide.
func Event(dst, event []byte) (out []byte, ok bool) {
	size := 0
	if !pieces(event, func(p []byte) { size += len(p) }) || size >= len(event) {
		return dst, false
	}
	if cap(dst)-len(dst) < size {
		dst = append(make([]byte, 0, len(dst)+size), dst...)
	}
	pieces(event, func(p []byte) { dst = append(dst, p...) })
	return dst, true
}

// pieces emits the truncated event in pieces. What was emitted is worthless if
// it returns false: the event is not one to truncate.
func pieces(event []byte, emit func([]byte)) bool {
	requestOrAbove, annotated := false, false
	separator := openBrace
	for m := range members(event) {
		if is(m.key, keyRequestObject) || is(m.key, keyResponseObject) {
			continue
		}
		emit(separator)
		separator = comma
		emit(m.before)
		switch {
		case is(m.key, keyAnnotations):
			if !annotate(m.value, emit) {
				return false
			}
			annotated = true
		case is(m.key, keyLevel) && !bytes.Equal(m.value, null):
			requestOrAbove = is(m.value, levelRequest) || is(m.value, levelRequestResponse)
			emit(m.value)
		default:
			emit(m.value)
		}
		emit(m.after)
	}
	if !annotated {
		emit(separator)
		emit(namedAnnotations)
		annotate(null, emit)
	}
	emit(closeBrace)
	return requestOrAbove
}

// annotate emits the value of annotations, with the annotation, in pieces. It
// returns false if they can have none.
func annotate(annotations []byte, emit func([]byte)) bool {
	if bytes.Equal(annotations, null) {
		annotations = []byte("{}")
	}
	if annotations[0] != '{' {
		return false
	}
	annotated := false
	separator := openBrace
	for m := range members(annotations) {
		emit(separator)
		separator = comma
		emit(m.before)
		if is(m.key, keyTruncated) {
			emit(truncated)
			annotated = true
		} else {
			emit(m.value)
		}
		emit(m.after)
	}
	if !annotated {
		emit(separator)
		emit(namedTruncated)
	}
	emit(closeBrace)
	return true
}
