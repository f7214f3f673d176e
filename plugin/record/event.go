package record

// This file says what is an audit event and what an audit EventList, from the
// pairs at the top of a map or a JSON object.

// The names and values are those of audit.k8s.io/v1,
// k8s.io/apiserver/pkg/apis/audit/v1/types.go.
const (
	keyKind        = "kind"
	keyAPIVersion  = "apiVersion"
	keyAuditID     = "auditID"
	keyStage       = "stage"
	keyItems       = "items"
	keyRequestTime = "requestReceivedTimestamp"
	keyStageTime   = "stageTimestamp"

	kindEvent     = "Event"
	kindEventList = "EventList"
	auditV1       = "audit.k8s.io/v1"

	longestKey = len(keyRequestTime)
)

// name is one of these keys.
type name uint8

const (
	otherName name = iota
	nameKind
	nameAPIVersion
	nameAuditID
	nameStage
	nameItems
	nameRequestTime
	nameStageTime
)

func nameOf(key []byte) name {
	switch string(key) {
	case keyKind:
		return nameKind
	case keyAPIVersion:
		return nameAPIVersion
	case keyAuditID:
		return nameAuditID
	case keyStage:
		return nameStage
	case keyItems:
		return nameItems
	case keyRequestTime:
		return nameRequestTime
	case keyStageTime:
		return nameStageTime
	}
	return otherName
}

// match is how a value compares with the values that it may have.
type match uint8

const (
	absent match = iota
	event        // "Event", or the apiVersion of audit
	eventList
	other
)

// timestamp is one of the two timestamps of an event.
type timestamp struct {
	present bool
	value   []byte // empty if it is not a string
}

// fields is what is learnt about a map or object from its top-level pairs.
// Offsets are those of the buffer that it was read from; 0 means none.
type fields struct {
	kind, apiVersion       match
	auditID, stage         bool // present, and a string
	requestTime, stageTime timestamp
	items                  int // offset of items, if it is an array
	log                    int // offset of the value under Log_Key
}

// learn takes note of a pair. value is the string that the pair holds, or nil
// if it does not hold a string; items tells where the array begins, if it is
// one. A later pair of the same key replaces what an earlier one said.
func (f *fields) learn(key name, value []byte, items int) {
	switch key {
	case nameKind:
		switch string(value) {
		case kindEvent:
			f.kind = event
		case kindEventList:
			f.kind = eventList
		default:
			f.kind = other
		}
	case nameAPIVersion:
		f.apiVersion = other
		if string(value) == auditV1 {
			f.apiVersion = event
		}
	case nameAuditID:
		f.auditID = value != nil
	case nameStage:
		f.stage = value != nil
	case nameItems:
		f.items = items
	case nameRequestTime:
		f.requestTime = timestamp{true, value}
	case nameStageTime:
		f.stageTime = timestamp{true, value}
	}
}

func (f *fields) isEvent() bool {
	return f.auditID && f.stage && f.kind <= event && f.apiVersion <= event
}

func (f *fields) isList() bool {
	return f.kind == eventList && f.apiVersion <= event && f.items > 0
}

// lacksOneTimestamp holds for an event whose other timestamp a parser may have
// taken as the record's time. kube-apiserver always writes both.
func (f *fields) lacksOneTimestamp() bool {
	return f.requestTime.present != f.stageTime.present
}

// refusal is why a map or object that is neither event nor list is skipped.
func (f *fields) refusal(notEvent Reason) Reason {
	if f.kind == other || f.apiVersion == other {
		return OtherKind
	}
	return notEvent
}
