package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWhatAnEventCostsIsBeyondARunOfOne(t *testing.T) {
	c := comparison{scenario: "Metadata", form: "raw", input: input{events: 1_000_001}}
	own := func(cpu, outside float64) turn {
		return turn{cpu: []float64{cpu}, outside: []float64{outside}, log: "stopped suppressed=0 remembered=1000007"}
	}
	turns := []turn{own(9, 9), own(9, 9), // of the rest of the comparison
		own(3.01, 0.51), own(3.28, 0.78), own(0.02, 0.01), own(0.12, 0.11)}
	got := c.ledgerRow(turns, version{name: "490f43c"})
	want := row{
		scenario: "Metadata, State_Dir, 1000007 events remembered: µs of CPU an event more than 490f43c", form: "raw",
		peer: "490f43c: 0.50 µs", plugin: "0.67 µs; to load what is remembered 0.10 s", ratio: "+0.17; of the whole process +0.17", target: "≤ 0.25, met",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTheVersionBeforeHasTheSameKeysAndNoLedger(t *testing.T) {
	e := endToEnd{before: version{library: "before.so"}, full: "full", one: input{events: 1}}
	all := e.ledgerOutputs(pipeline{output: "k8saudit", library: "now.so", input: input{events: 10}, keys: []string{"URL x", "Plugin_Log_Level warn"}})
	for i, want := range []struct {
		library, state string
		events         int
	}{{"before.so", "", 10}, {"now.so", "full", 10}, {"before.so", "", 1}, {"now.so", "full", 1}} {
		p := all[i]
		if p.library != want.library || p.state != want.state || p.input.events != want.events {
			t.Errorf("turn %d is %+v, want %+v", i, p, want)
		}
		if !slices.Equal(p.keys, all[0].keys) || !slices.Contains(p.keys, "State_Dir {folder}/k8saudit") {
			t.Errorf("turn %d has the keys %q", i, p.keys)
		}
	}
}

func TestWhatIsRememberedIsReadFromTheLastLine(t *testing.T) {
	for log, want := range map[string]string{
		"started\n": "an unknown number of",
		"x remembered=5\nstopped suppressed=2 remembered=17 took=3s\n": "17",
		"not_remembered=5\n": "an unknown number of",
	} {
		if got := remembered(log).String(); got != want {
			t.Errorf("%q: %s, want %s", log, got, want)
		}
	}
	if got := orDelivered(unknown, 9) + orDelivered(4, 9); got != 13 {
		t.Errorf("%d", got)
	}
}

func TestRecordsGetAuditIDsOfTheirOwn(t *testing.T) {
	const records = "\xa7auditID\xd9\x0babcdefgh-xy\xa7auditID\xa6abcdef\xa7auditID\xa8abcdefgh"
	if got, want := string(numberedRecords([]byte(records), 0xabc)), "\xa7auditID\xd9\x0b00000abc-xy\xa7auditID\xa6000abd\xa7auditID\xa800000abe"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChunksThatAreDoneHave2MB(t *testing.T) {
	dir := t.TempDir()
	record := recordStart + strings.Repeat("x", 700) + "\xa7auditID\xa8abcdefgh"
	parsed := records{form: "parsed", file: filepath.Join(dir, "parsed.msgpack"), each: 1000}
	if err := os.WriteFile(parsed.file, []byte(strings.Repeat(record, 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	inputs, err := doneInputs(dir, [][]byte{[]byte(`{"auditID":"abcdefgh","text":"` + strings.Repeat("x", 600) + `"}`)}, parsed)
	if err != nil {
		t.Fatal(err)
	}
	for i, overhead := range []int{lineOverhead - 1, 0} { // a line has its end in the file
		r := inputs[i]
		text, err := os.ReadFile(r.file)
		if size := len(text) + r.each*overhead; err != nil || size > doneBytes || size < doneBytes-800 {
			t.Errorf("%s: %d bytes, %v; want 2 MB", r.form, size, err)
		}
		seen := map[string]bool{}
		for part := range bytes.SplitSeq(text, mark) {
			seen[string(part[:min(len(part), 12)])] = true
		}
		if len(seen) != r.each+1 {
			t.Errorf("%s: %d different events of %d", r.form, len(seen)-1, r.each)
		}
	}
}

func TestChunksHaveTheSameNumberOfEvents(t *testing.T) {
	for each, want := range map[int]int{152_000: 2375, 1262: 1262, 15_200: 1900, 7919: 1} {
		if got := (records{each: each}).chunk(); got != want {
			t.Errorf("%d events: chunks of %d, want %d", each, got, want)
		}
	}
	args := strings.Join(records{each: 1262, events: 2524, first: 7, option: "--msgpack", file: "f"}.everyMillion(), " ")
	if want := "--chunk-records 1262 --rss-every 792 --distinct 7 --repeat 2 --msgpack f"; args != want {
		t.Errorf("%s, want %s", args, want)
	}
}

func TestMemoryIsFlatFromTheSecondMillionOn(t *testing.T) {
	reports := []memoryAt{{0, 10}, {400, 1024}, {800, 2048}, {1200, 3072}, {1300, 9999}}
	if shown, ratio := flat(reports, 2500); shown != "1 M: 1.0, 2 M: 2.0" || ratio != 1.5 {
		t.Errorf("%s, %v", shown, ratio)
	}
}

func TestAFolderIsCopiedForOneRun(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(filepath.Join(from, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "ledger"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFiles(from, to); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if got := folderSize(to); got != 5 {
		t.Errorf("%d bytes were copied, want 5", got)
	}
	if err := copyFiles("", filepath.Join(to, "empty")); err != nil || folderSize(filepath.Join(to, "empty")) != 0 {
		t.Errorf("a folder for nothing: %v", err)
	}
}
