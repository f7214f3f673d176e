// Tests of the logs: their lines, their repair, their rotation.

package deadletter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestARejectedEventIsALineByteForByte(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	must(t, d.Reject([]byte(`{"a": "é\n<&>" , "b":1.0}`)))
	pretty := []byte("{\n\"c\":\r\n[]}\n")
	must(t, d.Reject(pretty))
	wantContents(t, d, `rejected.log: {"a": "é\n<&>" , "b":1.0}|{ "c":`+"\r"+` []} |`)
	if string(pretty) != "{\n\"c\":\r\n[]}\n" {
		t.Errorf("the caller's event was changed to %q", pretty)
	}
}

func TestTheFolderAndItsFilesAreTheOwnersAlone(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	_, err := d.Keep("0f", each("{}"))
	must(t, err)
	entries, err := os.ReadDir(d.path)
	must(t, err)
	modes := fmt.Sprint(mode(t, d.path))
	for _, e := range entries {
		modes += fmt.Sprint(" ", mode(t, d.join(e.Name())))
	}
	if want := "drwx------ -rw------- -rw------- -rw-------"; modes != want {
		t.Errorf("modes %s, want %s", modes, want)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	info, err := os.Lstat(path)
	must(t, err)
	return info.Mode()
}

func TestOnlyTheFolderItselfIsMade(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "missing", "dead"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a parent: %v", err)
	}
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := Open(path, nil); !errors.Is(err, syscall.ENOTDIR) && err == nil {
		t.Errorf("a file in its place: %v", err)
	}
}

func TestASkippedRecordIsALineWithItsReasonAndLength(t *testing.T) {
	rest := strings.Repeat("x", 64<<10)
	for _, tt := range []struct{ raw, want string }{
		{"a \"line\"\n<b>", `"bytes":12,"raw":"a \"line\"\n<b>"`},
		{"", `"bytes":0,"raw":""`},
		{"\xff\x00", `"bytes":2,"base64":"/wA="`},
		{rest, `"bytes":65536,"raw":"` + rest + `"`},
		{rest + "y", `"bytes":65537,"raw":"` + rest + `"`},
		{rest[1:] + "é", `"bytes":65537,"raw":"` + rest[1:] + `"`},
		{rest[1:] + "\xff" + "y", `"bytes":65537,"base64":"` + strings.Repeat("eHh4", 21845) + `/w=="`},
	} {
		bubble(t, func(t *testing.T, d *Dir) {
			must(t, d.Skip(Skipped{Tag: "kube.\xff", Reason: "a reason", Raw: []byte(tt.raw)}))
			got, err := os.ReadFile(d.join(skippedLog))
			must(t, err)
			if want := `{"time":"2000-01-01T00:00:00Z","tag":"kube.` + `\ufffd","reason":"a reason",` + tt.want + "}\n"; string(got) != want {
				t.Errorf("got\n%.200s\nwant\n%.200s", got, want)
			}
		})
	}
}

// A file is cut at every byte, and goes on.
func TestATornLastLineSpoilsNoOther(t *testing.T) {
	t.Parallel()
	events := []string{`{"n":1}`, `{"n":2,"s":"}"}`, `{"n":3}`}
	var text string
	for _, e := range events {
		text += e + "\n"
	}
	for cut := range len(text) + 1 {
		for _, at := range []string{"open", "append"} {
			d := open(t, filepath.Join(t.TempDir(), "dead"))
			put(t, d, rejectedLog, text[:cut])
			whole, torn := text[:cut], ""
			if end := strings.LastIndex(whole, "\n") + 1; end < cut {
				whole, torn = whole[:end], whole[end:]
			}
			if torn != "" && text[cut] == '\n' {
				whole, torn = whole+torn+"\n", ""
			}
			var want []string
			if at == "open" {
				d = open(t, d.path)
			} else {
				must(t, d.Reject([]byte("{}")))
				whole += "{}\n"
			}
			if whole != "" {
				want = append(want, "rejected.log: "+strings.ReplaceAll(whole, "\n", "|"))
			}
			if torn != "" {
				want = append(want, fmt.Sprintf(`skipped.log: {"time":"","tag":"","reason":"torn line of rejected.log","bytes":%d,"raw":%q}|`, len(torn), torn))
			}
			wantContents(t, d, want...)
		}
	}
}

func TestATornSkippedRecordIsASkippedRecord(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	put(t, d, skippedLog, "{}\n{\"to")
	must(t, d.Skip(Skipped{Tag: "t", Reason: "r", Raw: []byte("x")}))
	wantContents(t, d, `skipped.log: {}|`+
		`{"time":"","tag":"","reason":"torn line of skipped.log","bytes":4,"raw":"{\"to"}|`+
		`{"time":"","tag":"t","reason":"r","bytes":1,"raw":"x"}|`)
}

func TestATornLineMayBeLong(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "{}\n"} {
		for _, n := range []int{64<<10 - 4, 64<<10 - 3, 64 << 10, 64<<10 + 1, 300 << 10} {
			d := open(t, filepath.Join(t.TempDir(), "dead"))
			event := `"` + strings.Repeat("x", n-2) + `"`
			put(t, d, rejectedLog, before+event)
			must(t, d.Reject([]byte("{}")))
			wantContents(t, d, "rejected.log: "+strings.ReplaceAll(before, "\n", "|")+event+"|{}|")
		}
	}
}

func TestAFullLogIsRotatedAndTheNewestAreKept(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("", 7200)
	t.Cleanup(func() { time.Local = local })
	path := filepath.Join(t.TempDir(), "dead")
	synctest.Test(t, func(t *testing.T) {
		var removed []string
		d, err := Open(path, func(name string, bytes int64) { removed = append(removed, fmt.Sprint(name, " ", bytes)) })
		must(t, err)
		d.limits.log, d.limits.rotated = 10, 2
		put(t, d, "rejected-notatime.log", "other")
		for _, event := range []string{`{"1":1}`, `{}`, `{"3":"longer than a file"}`, `{}`, `{"5":5}`} {
			must(t, d.Reject([]byte(event)))
			must(t, d.Skip(Skipped{Raw: []byte(event)}))
		}
		time.Sleep(90*time.Minute + 1234567*time.Microsecond)
		must(t, d.Reject([]byte(`{"6":6}`)))
		skipped := func(bytes, raw string) string {
			return `{"time":"","tag":"","reason":"","bytes":` + bytes + `,"raw":"` + raw + `"}|`
		}
		// Names are unique within a millisecond, and in UTC.
		wantContents(t, d,
			`rejected-2000-01-01T00-00-00.003.log: {}|`,
			`rejected-2000-01-01T01-30-01.234.log: {"5":5}|`,
			`rejected-notatime.log: other`,
			`rejected.log: {"6":6}|`,
			`skipped-2000-01-01T00-00-00.002.log: `+skipped("26", `{\"3\":\"longer than a file\"}`),
			`skipped-2000-01-01T00-00-00.003.log: `+skipped("2", "{}"),
			`skipped.log: `+skipped("7", `{\"5\":5}`))
		want := []string{
			"rejected-2000-01-01T00-00-00.000.log 8", "skipped-2000-01-01T00-00-00.000.log 81",
			"rejected-2000-01-01T00-00-00.001.log 3", "skipped-2000-01-01T00-00-00.001.log 74",
			"rejected-2000-01-01T00-00-00.002.log 27",
		}
		if !slices.Equal(removed, want) {
			t.Errorf("removed %q, want %q", removed, want)
		}
	})
}

func TestLinesOfManyDoNotMix(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dead")
	const each, lines = 4, 25
	var wg sync.WaitGroup
	for _, d := range []*Dir{open(t, path), open(t, path)} {
		for range each {
			wg.Go(func() {
				for i := range lines {
					if err := d.Reject([]byte(`{"x":"` + strings.Repeat("x", i*997) + `"}`)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	b, err := os.ReadFile(filepath.Join(path, rejectedLog))
	must(t, err)
	counts := map[int]int{}
	for line := range strings.Lines(string(b)) {
		counts[len(line)]++
	}
	for i := range lines {
		if n := counts[i*997+len(`{"x":""}`)+1]; n != 2*each {
			t.Errorf("%d lines with %d x", n, i*997)
		}
	}
	if len(counts) != lines {
		t.Errorf("lines of %d lengths, want %d", len(counts), lines)
	}
}

func TestNothingStaysOfALineThatFailed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		break_ func(*faults)
	}{
		{"disk full", func(f *faults) { f.write, f.room = syscall.ENOSPC, 5 }},
		{"no byte left", func(f *faults) { f.write = syscall.EDQUOT }},
		{"sync fails", func(f *faults) { f.sync = syscall.EIO }},
		{"read-only", func(f *faults) { f.open = syscall.EROFS }},
		{"full and no truncate", func(f *faults) { f.write, f.room, f.truncate = syscall.ENOSPC, 5, syscall.EIO }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, filepath.Join(t.TempDir(), "dead"))
			must(t, d.Reject([]byte(`{"n":1}`)))
			f := breakDisk(d)
			tt.break_(f)
			var errno syscall.Errno
			if err := d.Reject([]byte(`{"n":2}`)); !errors.As(err, &errno) || strings.Contains(err.Error(), `"n"`) {
				t.Errorf("got %v", err)
			}
			want := []string{`rejected.log: {"n":1}|`}
			if f.truncate == nil {
				wantContents(t, d, want...)
			}
			torn := f.truncate != nil
			*f = faults{}
			must(t, d.Reject([]byte(`{"n":3}`)))
			want[0] += `{"n":3}|`
			if torn {
				want = append(want, `skipped.log: {"time":"","tag":"","reason":"torn line of rejected.log","bytes":5,"raw":"{\"n\":"}|`)
			}
			wantContents(t, d, want...)
		})
	}
}

func TestAFolderThatWasAwayIsUsedAgain(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	must(t, d.Reject([]byte(`{"n":1}`)))
	must(t, os.Rename(d.path, d.path+".away"))
	for _, err := range []error{d.Reject([]byte("{}")), d.Skip(Skipped{})} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
	if n, err := d.Keep("0f", each("{}")); n != 0 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kept %d, %v", n, err)
	}
	must(t, os.Rename(d.path+".away", d.path))
	must(t, d.Reject([]byte(`{"n":2}`)))
	wantContents(t, d, `rejected.log: {"n":1}|{"n":2}|`)
}

func TestOnlyRegularFilesAreUsed(t *testing.T) {
	for _, name := range []string{rejectedLog, skippedLog, "undelivered-0f-2000-01-01T00-00-00.000.log"} {
		for kind, make := range map[string]func(target, name string) error{
			"symbolic link": os.Symlink,
			"regular file":  func(_, name string) error { return syscall.Mkfifo(name, 0o600) },
			"directory":     func(_, name string) error { return os.Mkdir(name, 0o700) },
		} {
			d := open(t, filepath.Join(t.TempDir(), "dead"))
			target := filepath.Join(t.TempDir(), "target")
			must(t, os.WriteFile(target, nil, 0o600))
			os.Remove(d.join(name))
			must(t, make(target, d.join(name)))
			var err error
			switch name {
			case rejectedLog:
				err = d.Reject([]byte("{}"))
			case skippedLog:
				err = d.Skip(Skipped{})
			default:
				_, err = d.TakeUp(name)
			}
			if err == nil || !strings.Contains(err.Error(), kind) {
				t.Errorf("%s: got %v, want a word of a %s", name, err, kind)
			}
			if b, err := os.ReadFile(target); err != nil || len(b) > 0 {
				t.Errorf("%s: the link's target holds %q, %v", name, b, err)
			}
			if _, err := Open(d.path, nil); (err == nil) != strings.HasPrefix(name, "undelivered") {
				t.Errorf("%s: Open returned %v", name, err)
			}
		}
	}
}
