package e2e

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// This file has inputs that give everything twice: a forgotten position, two inputs for
// one file, posts that come again.

func TestWhatIsReadAgainIsSentOnce(t *testing.T) {
	t.Parallel()
	sideBySide(t,
		scenarioTest{name: "tail DB deleted between two runs", run: positionsDeleted},
		scenarioTest{name: "two inputs read the same file with one tag", run: func(c *scenario) { twoInputs(c, "kube.audit") }},
		scenarioTest{name: "two inputs read the same file with two tags", run: func(c *scenario) { twoInputs(c, "kube.copy") }},
	)
}

func positionsDeleted(c *scenario) {
	const file = 5000 // events
	c.receive()
	c.log.write(file)
	c.log.rotate()
	c.log.write(file)
	c.log.rotate()
	c.log.write(file)
	c.start()
	c.await()
	c.stop()
	// -shm and -wal as well.
	databases, err := filepath.Glob(c.setup.positions(0) + "*")
	if err != nil || len(databases) == 0 {
		c.Fatalf("databases %v, %v", databases, err)
	}
	for _, name := range databases {
		if err := os.Remove(name); err != nil {
			c.Fatal(err)
		}
	}
	c.log.write(file)
	c.start()
	c.finishOnce(3 * file)
}

// twoInputs has each event in two chunks. The receiver is slow and Flush_Timeout short, so
// that some come the second time while they are in flight.
func twoInputs(c *scenario, second string) {
	const load = 10 * perSecond
	c.setup.inputs = []input{{path: c.log.pattern()}, {path: c.log.pattern(), tag: second}}
	c.key("Flush_Timeout 200ms")
	c.receive("-delay", "300ms")
	c.start()
	c.grow(load, perSecond, 0)
	c.finishOnce(load)
}

func TestPostsThatComeAgainAreSentOnce(t *testing.T) {
	onFluentBit(t, func(t *testing.T) {
		for _, name := range []string{"relay.conf", "relay.yaml"} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				log := filepath.Join(dir, "audit.log")
				bodies, events := webhookBodies(t, log)
				r := receive(t, dir, log, "", "-semantic")
				s := setup{dir: dir} // as relay has it
				finish := func(p *process) {
					until(t, "all events are stored", func() bool { return r.stored() >= len(events) || p.ended() })
					until(t, "no chunk is left", func() bool { return s.chunksStored(t) == 0 || p.ended() })
					p.stop()
				}
				p, post := relay(t, dir, name, r)
				for _, body := range bodies {
					postUnanswered(t, post.address, body)
					post.send(body)
				}
				finish(p)
				// The sender may not know either that Fluent Bit was stopped.
				p, post = relay(t, dir, name, r)
				for _, body := range bodies {
					post.send(body)
				}
				finish(p)
				if again := suppressed(p.String()); again != len(events) {
					t.Errorf("the log says that %d events came again after the restart, want %d", again, len(events))
				}
				r.wantAll(len(events))
			})
		}
	})
}

// postUnanswered posts a body and breaks off when the answer comes.
func postUnanswered(t *testing.T, address, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /kube.audit?timeout=30s HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if _, err := io.Copy(conn, strings.NewReader(head+body)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	resets(conn)
}
