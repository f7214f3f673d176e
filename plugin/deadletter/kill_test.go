// Tests with processes that are killed: the test binary runs itself as a child.

package deadletter

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// children are what a child does in the folder that it is given, until it is killed.
var children = map[string]func(d *Dir){
	"reject":   rejectForEver,
	"keep":     keepForEver,
	"keepHold": keepAndHold,
	"take":     takeAndHold,
}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("DEADLETTER_CHILD")]; child != nil {
		d, err := Open(os.Getenv("DEADLETTER_DIR"), func(name string, _ int64) { panic(name + " was removed") })
		if err != nil {
			panic(err)
		}
		d.open = func(path string, flags int) (file, error) {
			f, err := openFile(path, flags)
			return childFile{f}, err
		}
		child(d)
	}
	os.Exit(m.Run())
}

// start starts a child, whose output is read and who is killed at the end at the
// latest.
func start(t *testing.T, name, dir string) (child *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "DEADLETTER_CHILD="+name, "DEADLETTER_DIR="+dir)
	child.Stderr = os.Stderr
	pipe, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	t.Cleanup(func() { kill(child) })
	return child, bufio.NewReader(pipe)
}

func kill(child *exec.Cmd) {
	_ = child.Process.Kill()
	_ = child.Wait()
}

func readLine(t *testing.T, out *bufio.Reader) string {
	t.Helper()
	line, err := out.ReadString('\n')
	must(t, err)
	return strings.TrimSuffix(line, "\n")
}

// newTestEvent returns an event of any length: the longer one is, the more often a
// kill meets it half written.
func newTestEvent(id string) []byte { return testEvent(id, rand.N(2<<20)) }

func testEvent(id string, size int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"size":%d,"pad":"%s"}`, id, size, strings.Repeat("x", size))
}

// checkTestEvent returns the ID of an event that is whole.
func checkTestEvent(t *testing.T, line []byte) (id string) {
	t.Helper()
	var size int
	_, err := fmt.Sscanf(string(line[:min(len(line), 100)]), `{"id":%q,"size":%d`, &id, &size)
	if err != nil || !bytes.Equal(line, testEvent(id, size)) {
		t.Errorf("a line of %d bytes is no whole event, %v: %.80s", len(line), err, line)
	}
	return id
}

// childFile is a file of a child. It is never synced: what the kernel has, a kill does
// not lose, and the less a child waits for the disk, the more often it is writing.
type childFile struct{ file }

func (childFile) Sync() error { return nil }

// writing is what a child prints before it writes, so that it can be killed then.
const writing = "writing"

func (f childFile) Write(b []byte) (int, error) {
	fmt.Println(writing)
	return f.file.Write(b)
}

// rejectForEver prints the ID of each event that Reject has acknowledged.
func rejectForEver(d *Dir) {
	d.limits.log, d.limits.rotated = 4<<20, 1e6
	var wg sync.WaitGroup
	for writer := range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), writer, n)
				if err := d.Reject(newTestEvent(id)); err != nil {
					panic(err)
				}
				fmt.Println(id)
			}
		})
	}
	wg.Wait()
}

func TestKilledProcessesLeaveWholeLinesAndLoseNoneThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dead")
	open(t, path)
	acknowledged := map[string]bool{}
	for range 10 {
		var acks [2][]string
		var wg sync.WaitGroup
		for i := range acks {
			child, out := start(t, "reject", path)
			wg.Go(func() { acks[i] = killAtWrite(child, out, 1+rand.N(3)) })
		}
		wg.Wait()
		for _, id := range slices.Concat(acks[:]...) {
			acknowledged[id] = true
		}
	}
	d := open(t, path)

	files, err := filepath.Glob(filepath.Join(path, "rejected*.log"))
	must(t, err)
	found := map[string]int{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(t, err)
		for line := range strings.Lines(string(b)) {
			if !strings.HasSuffix(line, "\n") {
				t.Errorf("%s ends in a part of a line", filepath.Base(name))
			}
			found[checkTestEvent(t, []byte(strings.TrimSuffix(line, "\n")))]++
		}
	}
	for id, n := range found {
		if n != 1 {
			t.Errorf("event %s is there %d times", id, n)
		}
		delete(acknowledged, id)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d events were acknowledged and are not there: %v", len(acknowledged), acknowledged)
	}
	torn, err := os.ReadFile(d.join(skippedLog))
	must(t, err)
	t.Logf("%d whole events in %d files, %d torn ones", len(found), len(files), strings.Count(string(torn), "\n"))
}

// killAtWrite kills a child when it is about to write for the nth time, and returns
// what it had acknowledged.
func killAtWrite(child *exec.Cmd, out *bufio.Reader, n int) (acknowledged []string) {
	for {
		line, err := out.ReadString('\n')
		switch {
		case err != nil:
			return acknowledged
		case line != writing+"\n":
			acknowledged = append(acknowledged, strings.TrimSuffix(line, "\n"))
		default:
			if n--; n == 0 {
				_ = child.Process.Kill()
			}
		}
	}
}

// keepForEver keeps events without end.
func keepForEver(d *Dir) {
	d.limits.file = 4 << 20
	_, err := d.Keep("0f", func(yield func([]byte) bool) {
		for n := 0; yield(newTestEvent(fmt.Sprint(n))); n++ {
		}
	})
	panic(err)
}

func TestAProcessThatIsKilledWhileItKeepsLeavesWhatItWrote(t *testing.T) {
	t.Parallel()
	for range 5 {
		d := open(t, filepath.Join(t.TempDir(), "dead"))
		child, out := start(t, "keep", d.path)
		readLine(t, out)
		// What can be taken up while the child writes are the files that it has finished.
		for _, name := range undelivered(t, d, "0f") {
			taken, err := d.TakeUp(name)
			must(t, err)
			if taken != nil {
				readAll(t, taken)
				if n := taken.Unreadable(); n > 0 {
					t.Errorf("%s was taken up with %d torn lines", name, n)
				}
				taken.Close()
			}
		}
		killAtWrite(child, out, 1+rand.N(15))
		// The lock of a process is free when it is no more.
		_ = child.Wait()
		n := 0
		names := undelivered(t, d, "0f")
		for i, name := range names {
			taken := takeUp(t, d, name)
			for _, event := range readAll(t, taken) {
				if id := checkTestEvent(t, []byte(event)); id != fmt.Sprint(n) {
					t.Fatalf("event %s at %d", id, n)
				}
				n++
			}
			if torn := taken.Unreadable(); torn > 1 || torn == 1 && i < len(names)-1 {
				t.Errorf("file %d of %d: %d torn lines", i+1, len(names), torn)
			}
			must(t, taken.Remove())
		}
		if n == 0 || len(undelivered(t, d, "0f")) > 0 {
			t.Errorf("%d events; then there is %q", n, undelivered(t, d, "0f"))
		}
		t.Logf("%d events in %d files", n, len(names))
	}
}

// keepAndHold writes an event and finishes neither its file nor anything else.
func keepAndHold(d *Dir) {
	_, err := d.Keep("0f", func(yield func([]byte) bool) {
		yield(testEvent("0", keepSize)) // is written at once
		fmt.Println("held")
		hold()
	})
	panic(err)
}

// hold waits for the kill. Nobody starts a goroutine here: the runtime would call a
// select that nothing can end a deadlock.
func hold() {
	for {
		time.Sleep(time.Hour)
	}
}

func TestAFileIsItsWritersUntilTheWriterIsKilled(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	child, out := start(t, "keepHold", d.path)
	for readLine(t, out) != "held" {
	}
	names := undelivered(t, d, "0f")
	if len(names) != 1 {
		t.Fatalf("there is %q", names)
	}
	wantNotTakenUp(t, d, names[0])
	kill(child)
	taken := takeUp(t, d, names[0])
	wantEqual(t, readAll(t, taken), string(testEvent("0", keepSize)))
	must(t, taken.Remove())
}

// takeAndHold prints the first event.
func takeAndHold(d *Dir) {
	names, err := d.Undelivered("0f")
	if err != nil {
		panic(err)
	}
	taken, err := d.TakeUp(names[0])
	if err != nil {
		panic(err)
	}
	event, err := taken.Next()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", event)
	hold()
}

func TestWhatAKilledProcessHadTakenIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "dead"))
	keep(t, d, "0f", `{"n":1}`, `{"n":2}`)
	name := undelivered(t, d, "0f")[0]
	child, out := start(t, "take", d.path)
	if got := readLine(t, out); got != `{"n":1}` {
		t.Errorf("the child got %s", got)
	}
	wantNotTakenUp(t, d, name)
	kill(child)
	taken := takeUp(t, d, name)
	wantEqual(t, readAll(t, taken), `{"n":1}`, `{"n":2}`)
	must(t, taken.Remove())
}
