package truncate

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"
)

// This file holds Event against encoding/json: a truncated event has the members
// that remain, in their order, each value byte for byte.

type pair struct{ name, value string }

// pairs is the members of an object, as encoding/json reads them.
func pairs(t *testing.T, object []byte) (all []pair) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	must := func(err error) {
		if err != nil {
			t.Fatalf("%v: %q", err, object)
		}
	}
	_, err := d.Token()
	must(err)
	for d.More() {
		name, err := d.Token()
		must(err)
		var value json.RawMessage
		must(d.Decode(&value))
		all = append(all, pair{name.(string), string(value)})
	}
	return all
}

// want is the members of the truncated event. annotations are members in turn,
// by the place of their value among them.
func want(t *testing.T, event []byte) (members []pair, annotations map[int][]pair, ok bool) {
	const key = "audit.k8s.io/truncated"
	level := ""
	annotations = map[int][]pair{}
	for _, p := range pairs(t, event) {
		switch p.name {
		case "requestObject", "responseObject":
			continue
		case "level":
			if p.value != "null" && json.Unmarshal([]byte(p.value), &level) != nil {
				level = ""
			}
		case "annotations":
			var of []pair
			switch {
			case p.value[0] == '{':
				of = pairs(t, []byte(p.value))
			case p.value != "null":
				return nil, nil, false
			}
			there := false
			for i := range of {
				if of[i].name == key {
					of[i].value, there = `"true"`, true
				}
			}
			if !there {
				of = append(of, pair{key, `"true"`})
			}
			annotations[len(members)] = of
			p.value = ""
		}
		members = append(members, p)
	}
	if len(annotations) == 0 {
		annotations[len(members)] = []pair{{key, `"true"`}}
		members = append(members, pair{"annotations", ""})
	}
	return members, annotations, level == "Request" || level == "RequestResponse"
}

// removed is how many bytes the values have that are not to remain.
func removed(t *testing.T, event []byte) (size int) {
	for _, p := range pairs(t, event) {
		if p.name == "requestObject" || p.name == "responseObject" {
			size += len(p.value)
		}
	}
	return size
}

// What composed makes events of.
var (
	someNames = []string{`"level"`, `"level"`, `"\u006cevel"`, `"requestObject"`, `"request\u004fbject"`, `"responseObject"`, `"annotations"`, `"annotation\u0073"`,
		`"audit.k8s.io/truncated"`, `"audit.k8s.io\/truncated"`, `"requestObject\\"`, `"\"level"`, `""`}
	someValues = []string{`"Request"`, `"Request"`, `"R\u0065questResponse"`, `"Metadata"`, `null`, `-1.5e3`, `true`, `[]`, `[{"level":"\"}"},"]"]`, `"true"`, obj, obj, `{`, `{`}
	someSpaces = []string{``, ``, ``, ` `, "\r\n\t"}
)

// composed makes an event by the choices that the fuzzer makes, because it seldom
// arrives at one by changing bytes.
func composed(choices []byte) []byte {
	var b []byte
	choose := func(from []string) string {
		if len(choices) == 0 {
			return from[0]
		}
		chosen := from[int(choices[0])%len(from)]
		choices = choices[1:]
		return chosen
	}
	b = append(b, '{')
	empty := true // the innermost object, so far
	for depth := 1; depth > 0; {
		b = append(b, choose(someSpaces)...)
		if choose([]string{"close", "go on", "go on", "go on", "go on", "go on", "go on"}) == "close" {
			b = append(b, '}')
			depth--
			empty = false
			continue
		}
		if !empty {
			b = append(b, ',')
		}
		for _, part := range [][]string{someSpaces, someNames, someSpaces, {":"}, someSpaces} {
			b = append(b, choose(part)...)
		}
		value := choose(someValues)
		b = append(b, value...)
		if empty = value == "{"; empty {
			depth++
		}
	}
	return b
}

func FuzzEvent(f *testing.F) {
	for _, seed := range []string{
		`{"level":"RequestResponse","requestObject":` + obj + `,"responseObject":` + obj + `,"annotations":{"a/b":"c"}}`,
		"{ \"requestObject\" : " + obj + " , \"level\" : \"Request\" ,\n\"annotations\" : null\t}",
		`{"\u006cevel":"R\u0065quest","request\u004fbject":` + obj + `,"\u0061nnotations":{"audit.k8s.io\/truncated":""}}`,
		`{"level":"Metadata","level":"Request","level":null,"requestObject":` + obj + `,"annotations":{},"annotations":{"x":[1,-2.5e3]}}`,
		`{"level":"Request","annotations":[],"requestObject":"\ud800\\\"}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		event := bytes.Trim(text, " \t\r\n")
		if !json.Valid(event) || !utf8.Valid(event) || event[0] != '{' {
			if event = composed(text); !json.Valid(event) {
				t.Fatalf("composed %q", event)
			}
		}
		before := bytes.Clone(event)
		got, ok := Event(nil, event)
		if !bytes.Equal(event, before) {
			t.Fatalf("%q was written to: %q", before, event)
		}
		members, annotations, truncatable := want(t, event)
		if !ok {
			if len(got) > 0 {
				t.Fatalf("%q became %q, and ok is false", event, got)
			}
			if truncatable && removed(t, event) > len(annotations)*len(","+mark) {
				t.Fatalf("%q was not truncated", event)
			}
			return
		}
		if !json.Valid(got) || len(got) >= len(event) || !truncatable {
			t.Fatalf("%q became %q", event, got)
		}
		all := pairs(t, got)
		for i, of := range annotations {
			if i < len(all) {
				if a := pairs(t, []byte(all[i].value)); !slices.Equal(a, of) {
					t.Fatalf("%q became %q\nannotations %q, want %q", event, got, a, of)
				}
				all[i].value = ""
			}
		}
		if !slices.Equal(all, members) {
			t.Fatalf("%q became %q\nmembers %q, want %q", event, got, all, members)
		}
		if again, ok := Event(nil, got); ok {
			t.Fatalf("%q became %q and then %q", event, got, again)
		}
	})
}
