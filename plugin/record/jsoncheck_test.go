package record

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLineIsCheckedAsRFC8259(t *testing.T) {
	texts := []string{
		`{}`, `{ }`, `[]`, `[ ]`, `null`, `true`, `false`, `""`, `0`, ` 0 `, "\n\t\r [ 1 , 2 ] \n",
		``, ` `, `{`, `}`, `[`, `]`, `,`, `:`, `"`, `nul`, `nulll`, `tru`, `True`, `fals`, `NaN`, `Infinity`,
		`{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{1:1}`, `{'a':1}`, `{"a":1 "b":2}`, `{"a":1;"b":2}`, `{"a" 1}`, `{"a"::1}`,
		`{"a":1,"b":[2,{"c":{}}]}`, `{"a":{"b":{"c":[]}}}`, `{"a":[1}`, `{"a":{]}`, `[1,]`, `[,1]`, `[1 2]`, `[1]]`, `{}}`, `{}{}`, `{} x`, `[[[[]]]`,
		`{"a":{"b":1,}}`, `{"a":{"b"}}`, `{"a":{b:1}}`, `{"a":{"b":1 "c":1}}`, `{"a":{,"b":1}}`, `[{"a":1},{"b":2}]`, `[{"a":1}{"b":2}]`,
		`-`, `-0`, `-1`, `+1`, `01`, `-01`, `00`, `1.`, `.1`, `1.0`, `1.e1`, `1e`, `1e+`, `1e-`, `1e5`, `1E+05`, `1E-5`, `0e0`, `0.0e-0`, `1.5.5`, `1e5e5`, `0x1`, `1_0`, `- 1`, `-a`, `1a`,
		`"\n\t\r\b\f\/\\\""`, `"\a"`, `"\'"`, `"\x41"`, `"\`, `"\"`, `"\u`, `"\u1`, `"\u12`, `"\u123`, `"\u1234`, `"\u1234"`, `"\uABCD\uabcd\uEf09"`, `"\u12g4"`, `"\uD83D\uDE00"`, `"\ud800"`, `"\u 123"`, `"\U1234"`,
		"\"\x00\"", "\"\x1f\"", "\"\n\"", "\"\x7f\"", "\ufeff{}", "\u00a0{}", "{}\x00", "\v{}", "\f{}", "{\"a\":\v1}",
		`// x`, `{/**/}`, `[1,2`, `[1,`, `{"a":1`, `{"a":`, `{"a"`, `"abc`,
	}
	for _, text := range texts {
		for _, text := range []string{text, `[` + text + `]`, `{"k":` + text + `}`, `{"k":[` + text + `,1]}`, `{"k":{"l":` + text + ` }}`} {
			var c checker
			var f fields
			b := []byte(text)
			from, to, _, reason := c.line(b, &f)
			if valid := json.Valid(b); valid != (reason == none) {
				t.Errorf("%q: %v; encoding/json says %v", text, reason, valid)
			}
			if reason == none && string(b[from:to]) != strings.Trim(text, " \t\r\n") {
				t.Errorf("%q: bounds %q", text, b[from:to])
			}
		}
	}
}

func TestEscapesAreCheckedWhereverTheyStand(t *testing.T) {
	pieces := []string{
		`\"`, `\"`, `\\`, `\\`, `\\\"`, `\n`, `\/`, `\u003c`, `\uFFFD`, `plain`, `x`, "\u00e9", "\U0001f600", `"`, // valid
		`\`, `\x`, `\u12g4`, `\u12`, `\U1234`, "\\\u00e9", "\\\x01", "\x1f", "\x00", "\xff", "\\\xff", "\xe2\x82",
	}
	const valid = 13
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 100_000 {
		// Escapes alone, then one of anything, then some more.
		text := `["` + strings.Repeat(`\"`, 1+random.IntN(2)) + strings.Repeat("x", random.IntN(8))
		for range random.IntN(80) {
			text += pieces[random.IntN(valid)]
		}
		text += pieces[random.IntN(len(pieces))]
		for range random.IntN(40) {
			text += pieces[random.IntN(valid)]
		}
		b := []byte(text + `"]`)
		var c checker
		var f fields
		_, _, _, reason := c.line(b, &f)
		if valid := json.Valid(b); valid != (reason == none) {
			t.Fatalf("%q: %v; encoding/json says %v", b, reason, valid)
		}
		if reason == none {
			accepted++
			if c.invalid == utf8.Valid(b) {
				t.Fatalf("%q: bytes that are not UTF-8: %v", b, c.invalid)
			}
		}
	}
	if accepted < 10_000 || accepted > 90_000 {
		t.Errorf("%d of 100,000 texts were valid; the test needs both kinds", accepted)
	}
}

func TestWhatStandsBehindAStringIsNotLookedAt(t *testing.T) {
	for n := range 70 {
		text := strings.Repeat("x", n) + `\"\"`
		for _, behind := range []string{`\x`, `\u12g4`, "\x01\xff", "\\\x01", "\\\u00e9"} {
			behind = `"` + behind + strings.Repeat(`\`, 70)
			var c checker
			if end := c.text([]byte(text+behind), 0); end != len(text)+1 {
				t.Errorf("%d bytes before the escapes, %q behind: the string ends before %d, want %d", n, behind, end, len(text)+1)
			}
		}
	}
}

func TestLineCutAnywhereIsRefused(t *testing.T) {
	whole := line("a", `"user":{"username":"u","groups":["g\u00e9",1.5e3,null,true,false]}`)
	for i := range len(whole) {
		expect(t, pack(rec(pairs{"log", whole[:i]}), rec(ev("a"))), []string{line("a")}, NotJSON)
	}
	expect(t, pack(rec(pairs{"log", whole})), []string{whole})
}

func TestInvalidUTF8OutsideStringsIsNoJSON(t *testing.T) {
	for _, text := range []string{"{\"a\":\xff}", "\xff{}", "{}\xff", "{\xff}", "[1\xe2\x82]"} {
		var c checker
		var f fields
		if _, _, _, reason := c.line([]byte(text), &f); reason != NotJSON {
			t.Errorf("%q: %v", text, reason)
		}
	}
}

func TestLinePassesByteForByte(t *testing.T) {
	odd := line("a", `"x": [ 9007199254740993, 18446744073709551615, 123456789012345678901234567890, 1.0, 1e2, 1E400, 0.10, -0.0 ]`,
		`"s":"\ud83d\ude00\ud800\u0000\/`+"\u2028<>&\u00e9"+`"`, ` "dup" : 1 , "dup":2,"":{ }`)
	expect(t, pack(rec(pairs{"log", odd})), []string{odd})
	expect(t, pack(rec(pairs{"log", `{"items" : [ ` + odd + " ,\n" + odd + `],"kind":"EventList"}`})), []string{odd, odd})
}
