package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// This file has two outputs with the same URL: each sends an event once, and neither takes
// what the other has done for its own, over a stop and a reload.

func TestOutputsWithOneDestinationDoNotMix(t *testing.T) {
	t.Parallel()
	all, none := output{match: "kube.*"}, output{match: "nothing.*"}
	sideBySide(t,
		scenarioTest{name: "two outputs with one URL and the first idle", run: func(c *scenario) { oneIdle(c, none, all) }},
		scenarioTest{name: "two outputs with one URL and the second idle", run: func(c *scenario) { oneIdle(c, all, none) }},
		scenarioTest{name: "two outputs with one URL that both get all", run: bothActive},
	)
}

func oneIdle(c *scenario, first, second output) {
	c.setup.outputs = []output{first, second}
	c.receive("-delay", slowly)
	stoppedAndReloaded(c)
	c.finishOnce(1)
}

// bothActive tells the outputs apart by a header: a front gives each a receiver of its own.
func bothActive(c *scenario) {
	const header = "X-Output"
	c.setup.outputs = []output{{match: "kube.*", headers: header + ": a"}, {match: "kube.*", headers: header + ": b"}}
	c.receive("-delay", slowly)
	dir := filepath.Join(c.setup.dir, "b")
	if err := os.Mkdir(dir, 0o755); err != nil {
		c.Fatal(err)
	}
	b := receive(c.T, dir, c.log.pattern(), "", append([]string{"-delay", slowly}, c.args...)...)
	toB := newFront(c.T, b, nil)
	f := newFront(c.T, c.r, func(f *front, _ int64, w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(header) == "b" {
			f = toB
		}
		f.behind.ServeHTTP(w, req)
	})
	f.Start()
	c.setup.url = f.URL + "/audit"
	stoppedAndReloaded(c)
	c.finishOnce(1)
	b.wantAll(c.log.events())
}

// stoppedAndReloaded has chunks that wait for their retry at a stop and at a reload.
func stoppedAndReloaded(c *scenario) {
	c.leaveChunks()
	c.start()
	c.grow(15*perSecond, perSecond, 0)
	c.pass(5)
	c.stop()
	c.start()
	c.pass(5)
	c.p.reload()
}
