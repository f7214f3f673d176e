// This file is the webhook of the benchmarks: a process of its own, so that what
// it takes to receive is not in the sender's CPU time.

package peers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// receiverEnv, when it is set, makes the test binary a receiver.
const receiverEnv = "PEERS_RECEIVER"

// receive is the receiver's process. It prints its URL, answers 200 to each POST
// when it has read all of it, tells with GET /count how many events came so far,
// and ends when its standard input does, which is also when its parent is killed.
func receive() {
	server := httptest.NewServer(newDiscard())
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// newDiscard keeps nothing of what is posted to it but the count of the events.
func newDiscard() http.Handler {
	var events atomic.Int64
	counters := sync.Pool{New: func() any { return &counter{buf: make([]byte, 64<<10)} }}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, events.Load())
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		c := counters.Get().(*counter)
		defer counters.Put(c)
		n, err := c.count(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		events.Add(int64(n))
	})
	return mux
}

// auditID is what each event of level Metadata has once: it has no objects, which
// may hold anything.
var auditID = []byte(`"auditID":"`)

// counter counts events without decoding them. It serves one body at a time.
type counter struct{ buf []byte }

// count reads all of body and returns how many events are in it.
func (c *counter) count(body io.Reader) (events int, err error) {
	kept := 0 // of what was read, what may be the beginning of another auditID
	for {
		n, err := body.Read(c.buf[kept:])
		seen := c.buf[:kept+n]
		events += bytes.Count(seen, auditID)
		kept = copy(c.buf, seen[max(0, len(seen)-len(auditID)+1):])
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
}

// receiver is a receiver's process.
type receiver struct{ url string }

// startReceiver starts a process that reads and discards, until the test ends.
func startReceiver(t testing.TB) *receiver {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), receiverEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the receiver: %v", err)
		}
	})
	r := &receiver{}
	if _, err := fmt.Fscanln(stdout, &r.url); err != nil {
		t.Fatal(err)
	}
	return r
}

// events is how many events it has received so far.
func (r *receiver) events(t testing.TB) (n int) {
	t.Helper()
	answer, err := http.Get(r.url + "/count")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := fmt.Fscan(answer.Body, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// post sends it a body.
func (r *receiver) post(t *testing.T, body string) {
	t.Helper()
	answer, err := http.Post(r.url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %s, want 200", answer.Status)
	}
}

func TestTheReceiverCountsEachEventOnce(t *testing.T) {
	const event = `{"auditID":"a","verb":"get"},`
	r := startReceiver(t)
	for _, n := range []int{0, 1, 5000} { // the last one is more than it reads at once
		before := r.events(t)
		r.post(t, strings.Repeat(event, n))
		if got := r.events(t) - before; got != n {
			t.Errorf("%d events counted, want %d", got, n)
		}
	}
	// Wherever a read may end.
	for size := len(auditID); size < 40; size++ {
		c := counter{buf: make([]byte, size)}
		got, err := c.count(strings.NewReader(strings.Repeat(event, 100)))
		if err != nil || got != 100 {
			t.Errorf("%d events counted by reads of %d bytes, want 100 (%v)", got, size, err)
		}
	}
}
