package record

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMapIsWrittenExactly(t *testing.T) {
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"above 2^53", msg("\xcf\x00\x20\x00\x00\x00\x00\x00\x01"), "9007199254740993"},
		{"largest uint64", uint64(math.MaxUint64), "18446744073709551615"},
		{"smallest int64", math.MinInt64, "-9223372036854775808"},
		{"widths of unsigned", items{msg("\xcc\xff"), msg("\xcd\xff\xfe"), msg("\xce\xff\xff\xff\xfd")}, "[255,65534,4294967293]"},
		{"widths of signed", items{msg("\xd0\x80"), msg("\xd1\x80\x00"), msg("\xd2\x80\x00\x00\x00"), msg("\xd1\x00\x05")}, "[-128,-32768,-2147483648,5]"},
		{"fixints", items{0, 127, -1, -32}, "[0,127,-1,-32]"},
		{"more digits than an integer has", 123456789012345678901234567890., "1.2345678901234568e+29"},
		{"whole double", 1.0, "1.0"},
		{"a hundred", 1e2, "100.0"},
		{"a tenth", 0.1, "0.1"},
		{"negative zero", math.Copysign(0, -1), "-0.0"},
		{"million", 1e6, "1000000.0"},
		{"largest without exponent", 1e20, "100000000000000000000.0"},
		{"large", 1e21, "1e+21"},
		{"small", 1e-6, "0.000001"},
		{"smaller", 1e-7, "1e-07"},
		{"smallest", 5e-324, "5e-324"},
		{"longest", -2.2250738585072014e-308, "-2.2250738585072014e-308"},
		{"float32", float32(0.1), "0.10000000149011612"},
		{"nothing and truth", items{nil, true, false}, "[null,true,false]"},
		{"empty containers", items{items{}, pairs{}, map32{}, arr32{}, ""}, `[[],{},{},[],""]`},
		{"nested", items{items{items{}}, pairs{"a", pairs{"b", items{1}}}, 2}, `[[[]],{"a":{"b":[1]}},2]`},
		{"opaque keys", pairs{"f:status", pairs{`k:{"type":"Ready"}`, pairs{".", pairs{}, "f:status", pairs{}}}}, `{"f:status":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}`},
		{"pairs in their order, doubles too", pairs{"b", 1, "a", 2, "b", 3, "", 4}, `{"b":1,"a":2,"b":3,"":4}`},
		{"not for HTML", "<>&\u2028\u2029/\x7f", "\"<>&\u2028\u2029/\x7f\""},
		{"beyond the BMP", "a\U0001f600b", "\"a\U0001f600b\""},
		{"controls", "\x00\x01\b\t\n\v\f\r\x1f\"\\", `"\u0000\u0001\b\t\n\u000b\f\r\u001f\"\\"`},
		{"JSON patch", items{pairs{"op", "add", "path", "/a", "value", 1}}, `[{"op":"add","path":"/a","value":1}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := expect(t, pack(rec(ev("a", "x", test.value))), []string{line("a", `"x":`+test.want)})
			if w.stats.InvalidUTF8 != 0 {
				t.Errorf("InvalidUTF8 = %d", w.stats.InvalidUTF8)
			}
		})
	}
}

func TestWhatJSONCannotHoldCostsItsRecordOnly(t *testing.T) {
	good := rec(ev("a"))
	for name, v := range map[string]any{
		"NaN":           math.NaN(),
		"infinity":      math.Inf(1),
		"float32 -Inf":  float32(math.Inf(-1)),
		"ext":           extern{7, "data"},
		"fixext":        msg("\xd8\x01abcdefghijklmnop"),
		"integer key":   pairs{1, 2},
		"nil key":       pairs{nil, 2},
		"map as key":    pairs{pairs{}, 2},
		"deep down":     items{pairs{"a", items{1, math.NaN()}}},
		"text and then": items{"x", extern{0, "12345678"}},
	} {
		t.Run(name, func(t *testing.T) {
			chunk := pack(good, rec(ev("b", "x", v)), good,
				rec(pairs{"log", ev("b", "x", v)}),
				rec(pairs{"kind", "EventList", "items", items{ev("b", "x", v), ev("a")}}))
			a := line("a")
			expect(t, chunk, []string{a, a, a}, Unrepresentable, Unrepresentable, Unrepresentable)
		})
	}
	expect(t, pack(rec(append(pairs{7, 7}, ev("a")...)), good), []string{line("a")}, Unrepresentable)
}

func TestInvalidUTF8IsReplacedAndCounted(t *testing.T) {
	for in, want := range map[string]string{
		"\xff\xfe":             "\ufffd\ufffd",
		"a\xe2\x82":            "a\ufffd\ufffd",
		"\xed\xa0\x80":         "\ufffd\ufffd\ufffd", // a surrogate
		"\xc0\xaf":             "\ufffd\ufffd",       // overlong
		"\xf4\x90\x80\x80":     "\ufffd\ufffd\ufffd\ufffd",
		"\u00e9\x80\u20ac":     "\u00e9\ufffd\u20ac",
		"12345678\xff12345678": "12345678\ufffd12345678",
	} {
		chunk := pack(rec(ev("a", "x", in)), rec(pairs{"log", line("a", `"x":"`+in+`"`)}), rec(ev("a", in, 1)), rec(ev("b")))
		x := line("a", `"x":"`+want+`"`)
		w := expect(t, chunk, []string{x, x, line("a", `"`+want+`":1`), line("b")})
		if w.stats.InvalidUTF8 != 3 {
			t.Errorf("%q: InvalidUTF8 = %d, want 3", in, w.stats.InvalidUTF8)
		}
	}
}

func TestSpecialMarksExactlyTheBytesThatNeedCare(t *testing.T) {
	for c := range 256 {
		for lane := range 8 {
			word := uint64('a')*ones ^ uint64('a'^c)<<(8*lane)
			mask := special(word)
			if found := mask != 0; found == plain(byte(c)) || found && firstByte(mask) != lane {
				t.Errorf("byte %#x in lane %d: mask %#x", c, lane, mask)
			}
		}
	}
}

// TestSpecialBytesAtEveryOffset puts each kind of byte that needs care at each
// place of strings of each length, with and without bytes behind them in the
// chunk, so that each lane of each scan meets it.
func TestSpecialBytesAtEveryOffset(t *testing.T) {
	specials := []string{"\"", "\\", "\x00", "\x1f", "\n", "\u00e9", "\u20ac", "\U0001f600", "\x80", "\xff", " ", "\x7f", "!", "#", "[", "]"}
	var c converter
	var check checker
	for length := range 41 {
		for offset := range length + 1 {
			for _, special := range specials {
				s := strings.Repeat("x", offset) + special + strings.Repeat("y", length-offset)
				var want strings.Builder
				refString(&want, s)
				for _, behind := range []string{"", "\"\\\x00\xff\"\\\x00\xff", "zzzzzzzz"} {
					b := []byte(s + behind)
					b = b[:len(b):len(b)]
					dst, o := c.text(nil, 0, b, 0, len(s))
					if got := string(dst[:o]); got != want.String() {
						t.Fatalf("%q before %q: wrote %q, want %q", s, behind, got, want.String())
					}
				}
				// The same string as JSON, and with the special byte as it is.
				for _, text := range []string{want.String(), `"` + s + `"`} {
					var f fields
					_, end, object, reason := check.line([]byte(text), &f)
					if valid := json.Valid([]byte(text)); valid != (reason == none) || object || valid && end != len(text) {
						t.Fatalf("%q: reason %v, end %d; encoding/json says %v", text, reason, end, valid)
					}
				}
			}
		}
	}
}

func TestTwoSpecialBytesInOneWord(t *testing.T) {
	var c converter
	alphabet := []string{"a", "\"", "\\", "\x1f", " ", "\xc3\xa9", "\xff", "!"}
	for n := range len(alphabet) * len(alphabet) * len(alphabet) * len(alphabet) {
		s := ""
		for range 4 {
			s += alphabet[n%len(alphabet)]
			n /= len(alphabet)
		}
		var want strings.Builder
		refString(&want, s)
		dst, o := c.text(nil, 0, []byte(s), 0, len(s))
		if got := string(dst[:o]); got != want.String() {
			t.Fatalf("%q: wrote %q, want %q", s, got, want.String())
		}
	}
}

func TestStringsFullOfEscapesAreWrittenExactly(t *testing.T) {
	pieces := []string{`"`, `"`, `\`, "\n", "\r\n", "\t", "\b\f", "\x00", "\x1f", "\x7f", "/", "x", "plain", "\u00e9", "\U0001f600", "\xff", "\xe2\x82"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text, want strings.Builder
		for range random.IntN(60) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		refString(&want, text.String())
		b := []byte(text.String())
		var c converter
		// From no room at all to plenty, for it grows as it goes.
		out, o := c.text(make([]byte, random.IntN(100)), 0, b, 0, len(b))
		if got := string(out[:o]); got != want.String() {
			t.Fatalf("%q is written as\n%s, want\n%s", b, got, want.String())
		}
		if len(out)-o < margin {
			t.Fatalf("%q: room for %d bytes is left, want %d", b, len(out)-o, margin)
		}
		if c.replaced == utf8.Valid(b) {
			t.Fatalf("%q: bytes replaced: %v", b, c.replaced)
		}
	}
}

func TestNextGrowsDstAndKeepsWhatItHolds(t *testing.T) {
	chunk := pack(rec(ev("a", "x", strings.Repeat("\x01", 1000))), rec(pairs{"log", line("b")}))
	want := []string{line("a", `"x":"`+strings.Repeat(`\u0001`, 1000)+`"`), line("b")}
	for spare := range 300 {
		r := NewReader(&logKey)
		r.Reset(chunk, nil)
		dst := append(make([]byte, 0, 4+spare), "head"...)
		for i := range want {
			var ok bool
			if dst, ok = r.Next(dst); !ok {
				t.Fatalf("spare %d: no event %d", spare, i)
			}
		}
		if string(dst) != "head"+want[0]+want[1] {
			t.Fatalf("spare %d: got %q", spare, dst)
		}
	}
}

func TestNothingReturnedPointsIntoTheChunk(t *testing.T) {
	chunk := pack(rec(ev("a")), rec(pairs{"log", line("b")}))
	r := NewReader(&logKey)
	r.Reset(chunk, nil)
	a, _ := r.Next(nil)
	b, _ := r.Next(nil)
	for i := range chunk {
		chunk[i] = 0xc1
	}
	if got := []string{string(a), string(b)}; !slices.Equal(got, []string{line("a"), line("b")}) {
		t.Errorf("after the chunk was overwritten the events are %q", got)
	}
}
