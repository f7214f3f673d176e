package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// This file builds what is tested, starts and stops processes, and reads the
// receiver's verdict.

// What TestMain builds.
var (
	plugin    string // the library
	flbhost   string
	auditsink string
	fluentBit string // "" if there is none
	buildDir  string
	long      = os.Getenv("E2E_LONG") != ""
	bench     = os.Getenv("CHAOS") != "" // the fault bench, at full width and length
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if buildDir, err = os.MkdirTemp("", "k8saudit-e2e"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(buildDir)
	flbhost = filepath.Join(buildDir, "flbhost")
	auditsink = filepath.Join(buildDir, "auditsink")
	plugin = os.Getenv("PLUGIN_SO")
	sources, err := filepath.Glob("../../tools/flbhost/*.c")
	if err != nil || len(sources) == 0 {
		fmt.Fprintln(os.Stderr, "no sources of the bundled host:", err)
		return 1
	}
	commands := [][]string{
		append(append([]string{"gcc", "-std=gnu11", "-O2", "-o", flbhost}, sources...), "-ldl", "-lpthread"),
		{"go", "build", "-trimpath", "-o", auditsink, "../../cmd/auditsink"},
	}
	if plugin == "" {
		plugin = filepath.Join(buildDir, "out_k8saudit.so")
		commands = append(commands, []string{"go", "build", "-buildmode=c-shared", "-trimpath", "-o", plugin, "../.."})
	}
	for _, c := range commands {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", strings.Join(c, " "), err, out)
			return 1
		}
	}
	fluentBit = os.Getenv("FLUENT_BIT")
	if fluentBit == "" {
		fluentBit, _ = exec.LookPath("fluent-bit")
	}
	return m.Run()
}

// auditLog returns the lines of one of the two audit logs.
func auditLog(t *testing.T, level string) []string {
	t.Helper()
	dir := os.Getenv("AUDIT_DATA")
	if dir == "" {
		dir = "testdata"
	}
	return gunzipLines(t, filepath.Join(dir, "audit-"+level+".log.gz"))
}

func gunzip(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func gunzipLines(t *testing.T, file string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(string(gunzip(t, file)), "\n"), "\n")
}

func writeLines(t *testing.T, file string, lines []string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// deadline is how long any process may take: only a hang reaches it.
const deadline = 3 * time.Minute

// process is a process under test with what it printed.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// start runs a program. It is killed when the test ends, and its output shown if
// the test failed.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(name, args...))
}

// startCommand is start for a command with an environment or a folder of its own.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: filepath.Base(cmd.Path), cmd: cmd, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			out := p.String()
			if len(out) > 20000 {
				out = out[:10000] + "\n[...]\n" + out[len(out)-10000:]
			}
			t.Logf("%s %s:\n%s", p.name, strings.Join(cmd.Args[1:], " "), out)
		}
	})
	return p
}

// wait returns the exit status once the process has ended.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(deadline):
		p.t.Fatalf("%s has not ended within %v", p.name, deadline)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop asks the process to end, as Kubernetes and docker do, and returns how long
// that took.
func (p *process) stop() time.Duration {
	p.t.Helper()
	begin := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.wait()
	return time.Since(begin)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// until waits for something that other processes bring about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

// receiver is an auditsink.
type receiver struct {
	*process
	store    *growing
	requests string // the file of its requests
	url      string
}

// receive starts a receiver that compares what it gets with log, which may be a pattern.
// address may name the one that an earlier receiver had.
func receive(t *testing.T, dir, log, address string, args ...string) *receiver {
	t.Helper()
	r := &receiver{store: &growing{name: filepath.Join(dir, "received.log")}, requests: filepath.Join(dir, "requests.log")}
	if address == "" {
		address = "127.0.0.1:0"
	}
	r.process = start(t, auditsink, append([]string{"-listen", address, "-store", r.store.name, "-requests", r.requests, "-verify", log}, args...)...)
	until(t, "the receiver listens", func() bool {
		if r.ended() {
			t.Fatalf("the receiver ended")
		}
		_, after, ok := strings.Cut(r.String(), "listening on ")
		if !ok || !strings.Contains(after, "\n") {
			return false
		}
		scheme := "http://"
		if slices.Contains(args, "-tls-cert") {
			scheme = "https://"
		}
		r.url = scheme + strings.Fields(after)[0] + "/audit?x=1"
		return true
	})
	return r
}

func (r *receiver) address() string {
	_, address, _ := strings.Cut(r.url, "://")
	return strings.TrimSuffix(address, "/audit?x=1")
}

// stored is how many events the receiver has stored.
func (r *receiver) stored() int {
	lines, _ := r.store.read(r.t)
	return lines
}

// distinct is how many different events the receiver has stored.
func (r *receiver) distinct() int {
	_, distinct := r.store.read(r.t)
	return distinct
}

// growing is a file of lines that another process appends to. What was read once is not
// read again.
type growing struct {
	name string

	mu     sync.Mutex
	offset int64
	rest   []byte // of a line that has no end yet
	lines  int
	seen   map[[sha256.Size]byte]bool
}

// has says whether a line is in the file.
func (g *growing) has(t *testing.T, line string) bool {
	t.Helper()
	g.read(t)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[sha256.Sum256([]byte(line))]
}

// read is how many lines the file has, and how many different ones.
func (g *growing) read(t *testing.T) (lines, distinct int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	f, err := os.Open(g.name)
	if err != nil {
		return g.lines, len(g.seen) // not there yet
	}
	defer f.Close()
	if g.seen == nil {
		g.seen = map[[sha256.Size]byte]bool{}
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := f.ReadAt(buffer, g.offset)
		g.offset += int64(n)
		g.rest = append(g.rest, buffer[:n]...)
		done := 0
		for {
			end := bytes.IndexByte(g.rest[done:], '\n')
			if end < 0 {
				break
			}
			g.lines++
			g.seen[sha256.Sum256(g.rest[done:done+end])] = true
			done += end + 1
		}
		g.rest = append(g.rest[:0], g.rest[done:]...)
		if errors.Is(err, io.EOF) {
			return g.lines, len(g.seen)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// verdict is what a receiver says at its end.
type verdict struct {
	in, out, batches, lost, duplicated, altered int
}

var verdictLine = regexp.MustCompile(`verdict: events in (\d+), events out (\d+), batches (\d+), lost (\d+), duplicated (\d+), altered (\d+)`)

// verdict stops the receiver and returns what it says.
func (r *receiver) verdict() verdict {
	r.t.Helper()
	r.stop()
	m := verdictLine.FindStringSubmatch(r.String())
	if m == nil {
		r.t.Fatalf("the receiver gave no verdict")
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(m[i])
		return v
	}
	return verdict{n(1), n(2), n(3), n(4), n(5), n(6)}
}

var suppressions = regexp.MustCompile(`stopped.* suppressed=(\d+)`)

// suppressed is how many events came again and were not sent, as the outputs say at their
// end.
func suppressed(said string) (n int) {
	for _, m := range suppressions.FindAllStringSubmatch(said, -1) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	return n
}

// wantAll asserts that every event of the log arrived exactly once.
func (r *receiver) wantAll(events int) {
	r.t.Helper()
	v := r.verdict()
	r.t.Logf("events in %d, events out %d, batches %d, lost %d, duplicated %d, altered %d", v.in, v.out, v.batches, v.lost, v.duplicated, v.altered)
	if v.in != events || v.out != events || v.lost != 0 || v.duplicated != 0 || v.altered != 0 {
		r.t.Errorf("want %d events in and out, none lost, duplicated or altered", events)
	}
}
