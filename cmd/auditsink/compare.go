// This file says when two events are the same: byte for byte, or by what they mean.

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// sum stands for an event: equal sums, equal events.
type sum [16]byte

// comparison is how events are compared.
type comparison struct {
	semantic bool
	absent   []string // top-level fields that items must not have and lines may have
}

// item returns the sum of a received event, line that of a line of the audit log.
func (c comparison) item(raw []byte) sum { return c.sum(raw, nil) }
func (c comparison) line(raw []byte) sum { return c.sum(raw, c.absent) }

func (c comparison) sum(raw []byte, without []string) sum {
	if c.semantic {
		if canonical, ok := canonicalEvent(raw, without); ok {
			return hash(canonical)
		}
	}
	return hash(bytes.TrimSpace(raw))
}

func hash(b []byte) (s sum) {
	full := sha256.Sum256(b)
	copy(s[:], full[:])
	return s
}

// canonicalEvent gives events that mean the same the same bytes. The kind and apiVersion
// that kube-apiserver writes into its log and leaves out of its webhook's items make no
// difference, if they are the usual ones.
func canonicalEvent(event []byte, without []string) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	var fields map[string]any
	if d.Decode(&fields) != nil || d.More() {
		return nil, false
	}
	if fields["kind"] == "Event" {
		delete(fields, "kind")
	}
	if fields["apiVersion"] == "audit.k8s.io/v1" {
		delete(fields, "apiVersion")
	}
	for _, f := range without {
		delete(fields, f)
	}
	return appendCanonical(nil, fields), true
}

// appendCanonical appends v with its keys sorted, its strings escaped in one way and
// its numbers as canonicalNumber has them.
func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = append(strconv.AppendQuote(b, k), ':')
			b = append(appendCanonical(b, v[k]), ',')
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, e := range v {
			b = append(appendCanonical(b, e), ',')
		}
		return append(b, ']')
	case json.Number:
		return append(b, canonicalNumber(v.String())...)
	case string:
		return strconv.AppendQuote(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	default:
		return append(b, "null"...)
	}
}

// canonicalNumber writes a JSON number as its exact decimal value: 1e2, 100 and 100.0
// are "1e2"; 9007199254740993 stays apart from 9007199254740992.
func canonicalNumber(n string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(n), "e")
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	// The exponent has no bound in JSON, so it is counted as a big number.
	e := new(big.Int)
	if exponent != "" {
		e.SetString(strings.TrimPrefix(exponent, "+"), 10)
	}
	e.Sub(e, big.NewInt(int64(len(fraction))))
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0" // -0 too: it is the same number
	}
	short := strings.TrimRight(digits, "0")
	e.Add(e, big.NewInt(int64(len(digits)-len(short))))
	return sign + short + "e" + e.String()
}
