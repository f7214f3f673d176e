package e2e

import (
	"testing"
	"time"
)

// This file rotates the log that Fluent Bit reads. in_tail reads rotated files again, some
// time after Rotate_Wait and after a stop: each event must arrive once all the same.

// The load: a file is written to for a few seconds.
const (
	perSecond   = 1000
	rotateEvery = 3500 * time.Millisecond
)

func TestRotationLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	sideBySide(t,
		scenarioTest{name: "rotation every 3.5 s and three stops of 6 s by SIGTERM", run: stoppedThrice},
		scenarioTest{name: "rotation every 3.5 s and three stops of 6 s by kill -9", run: killedThrice},
		scenarioTest{name: "rotation every 3.5 s without a stop", run: neverStopped},
		scenarioTest{name: "webhook down over a stop and two rotations", run: downOverAStop},
		scenarioTest{name: "copytruncate every 4 s", run: copiedAndTruncated},
	)
}

func stoppedThrice(c *scenario) {
	c.receive("-delay", "50ms")
	awayThrice(c, func() { c.stop() })
	c.finishOnce(1000)
}

func killedThrice(c *scenario) {
	c.receive("-delay", "100ms")
	awayThrice(c, c.kill)
	c.wantRepeatsOfKills(c.finish())
}

// awayThrice starts Fluent Bit under 52 s of load, and ends it for 6 s three times.
func awayThrice(c *scenario, end func()) {
	c.grow(52*perSecond, perSecond, rotateEvery)
	for range 3 {
		c.start()
		c.pass(9)
		end()
		c.pass(6)
	}
	c.start()
}

func neverStopped(c *scenario) {
	c.receive("-delay", "50ms")
	c.start()
	c.grow(50*perSecond, perSecond, rotateEvery)
	c.finishOnce(10_000)
}

func downOverAStop(c *scenario) {
	c.receive()
	c.start()
	c.grow(30*perSecond, perSecond, 6*time.Second)
	c.pass(5)
	c.goAway() // from the fifth second to the twentieth, with rotations in the sixth, the twelfth and the eighteenth
	c.pass(3)
	c.stop() // from the eighth to the fifteenth at least
	c.pass(5)
	c.start()
	c.pass(5)
	c.receive()
	c.finishOnce(1000)
}

// copiedAndTruncated has a log whose old lines are read again from the copy, which is a
// file of its own to in_tail. Of the log itself in_tail sees that it is smaller than it
// was, and goes on at its start.
func copiedAndTruncated(c *scenario) {
	c.receive("-delay", "50ms")
	c.start()
	c.log.grow(30*perSecond, perSecond, 4*time.Second, c.log.copyAndTruncate)
	c.finishOnce(10_000)
}
