// This file reads answers: what a status other than 2xx tells, how long to wait, and
// which of the receiver's words may be shown.

package webhook

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxMessageRead is how much of an answer's body is looked at for a message.
	maxMessageRead = 4 << 10
	// maxDrain is how much of an answer's body is read to keep its connection.
	maxDrain = 64 << 10
	// answerPatience is how long an answer's body may take after its header; what the
	// status said counts in any case.
	answerPatience = time.Second

	maxMessage   = 200 // bytes of an answer's body in an error
	maxErrorText = 400 // bytes of a transport's error in an error
)

// Error is an answer other than 2xx.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Message is the beginning of the answer's body on one line, at most 200 bytes,
	// without control characters. It never repeats a credential, nor a piece of the
	// body that was sent.
	Message string

	target        string
	hint          string
	retryAfter    time.Duration
	hasRetryAfter bool
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s: answered %d", e.target, e.Status)
	if text := http.StatusText(e.Status); text != "" {
		b.WriteString(" " + text)
	}
	if e.hint != "" {
		b.WriteString(" (" + e.hint + ")")
	}
	if e.Message != "" {
		b.WriteString(": " + strconv.Quote(e.Message))
	}
	return b.String()
}

// StatusCode returns Status.
func (e *Error) StatusCode() int { return e.Status }

// RetryAfter returns how long the receiver asked to wait (RFC 9110, section 10.2.3),
// as seconds or as a date, which is counted from the answer's own Date if it has one.
// It is not bounded: a receiver may ask for a year. False when the header is missing,
// negative or neither of the two.
func (e *Error) RetryAfter() (time.Duration, bool) { return e.retryAfter, e.hasRetryAfter }

// parseRetryAfter reads the Retry-After of an answer received at now.
func parseRetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	if strings.Trim(v, "0123456789") == "" {
		seconds, err := strconv.ParseInt(v, 10, 64)
		if err != nil || seconds > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	// The receiver's clock against the receiver's clock, whatever ours says.
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return max(0, date.Sub(now)), true
}

// finish reads an answer's body as far as it is of use, and closes it. Ending early
// costs the connection, nothing else. cancel is the request's.
func finish(resp *http.Response, wantMessage bool, cancel func()) (message []byte) {
	defer resp.Body.Close()
	if resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		// After a 101 the body is the bare connection, which no context bounds.
		return nil
	}
	defer time.AfterFunc(answerPatience, cancel).Stop()
	if wantMessage {
		message, _ = io.ReadAll(io.LimitReader(resp.Body, maxMessageRead))
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	return message
}

// excerpt makes text from outside fit to be shown: at most limit bytes, one line,
// valid UTF-8 without control characters, and nothing of secrets and body.
func excerpt(text []byte, limit int, secrets []string, body []byte) string {
	text = bytes.TrimSpace(text)
	for _, secret := range secrets {
		if secret != "" {
			text = bytes.ReplaceAll(text, []byte(secret), []byte("[secret]"))
		}
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			r = '?'
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r):
			r = -1
		}
		if r >= 0 {
			if b.Len()+utf8.RuneLen(r) > limit {
				break
			}
			b.WriteRune(r)
		}
		text = text[n:]
		if b.Len() >= limit {
			break
		}
	}
	shown := b.String()
	if repeats(shown, body) {
		return "[withheld: repeats what was sent]"
	}
	return shown
}

// repeats reports whether text holds a longer piece of body: receivers like to answer
// with what they could not read, and events do not belong into a log. Quotes escaped
// by the receiver are looked through.
func repeats(text string, body []byte) bool {
	const piece, step = 32, 8
	plain := strings.ReplaceAll(text, `\"`, `"`)
	for i := 0; i+piece <= len(plain); i += step {
		if bytes.Contains(body, []byte(plain[i:i+piece])) {
			return true
		}
	}
	return false
}
