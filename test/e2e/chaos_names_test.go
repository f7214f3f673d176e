package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This file takes the receiver's name away, and gives it another address.

// names is the /etc/hosts that the processes of a trial see.
type names struct{ file string }

// ownNames gives the processes that the trial starts from here on an /etc/hosts of
// their own, and no server to ask. It skips the trial where that is not allowed.
func (c *trial) ownNames() *names {
	c.Helper()
	n := &names{filepath.Join(c.dir, "hosts")}
	resolver := filepath.Join(c.dir, "resolv.conf")
	n.set(c, "")
	if err := os.WriteFile(resolver, []byte("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"), 0o644); err != nil {
		c.Fatal(err)
	}
	// The thread is in a mount namespace of its own from here on, as are the
	// processes that it starts. It ends with the trial's goroutine.
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		c.Skipf("no mount namespace of its own for the host, it needs root: %v", err)
	}
	for _, m := range []struct {
		from, to string
		flags    uintptr
	}{
		{"", "/", syscall.MS_REC | syscall.MS_PRIVATE},
		{n.file, "/etc/hosts", syscall.MS_BIND},
		{resolver, "/etc/resolv.conf", syscall.MS_BIND},
	} {
		if err := syscall.Mount(m.from, m.to, "", m.flags, ""); err != nil {
			c.Skipf("%s cannot be mounted, it needs root: %v", m.to, err)
		}
	}
	return n
}

// set gives the receiver's name this address, or none. The file stays the same: it
// is mounted.
func (n *names) set(c *trial, address string) {
	c.Helper()
	text := "127.0.0.1 localhost\n"
	if address != "" {
		text += address + " " + proxied + "\n"
	}
	if err := os.WriteFile(n.file, []byte(text), 0o644); err != nil {
		c.Fatal(err)
	}
}

// named is the receiver's URL with its name in place of the address.
func named(r *receiver) string {
	_, port, _ := strings.Cut(r.address(), ":")
	return "http://" + proxied + ":" + port + "/audit"
}

// hostsKept is how long Go's resolver uses what it has read of /etc/hosts (package
// net, cacheMaxAge).
const hostsKept = 5 * time.Second

// unresolved has a name without an address at first.
func unresolved(c *trial) {
	n := c.ownNames()
	s := c.usual("")
	r := c.receive()
	s.url = named(r)
	p := c.start(s)
	var writer sync.WaitGroup
	writer.Go(c.write)
	until(c.T, "the name is looked up in vain", func() bool { return strings.Contains(p.String(), "lookup "+proxied) || p.ended() })
	if r.stored() != 0 {
		c.Error("events arrived at a name without an address")
	}
	n.set(c, "127.0.0.1")
	writer.Wait()
	c.patience += hostsKept
	c.finish(p, r, time.Now())
}

// moved has a receiver that goes on at another address.
func moved(c *trial) {
	n := c.ownNames()
	n.set(c, "127.0.0.2")
	s := c.usual("")
	r := c.receiveAt("127.0.0.2:0")
	s.url = named(r)
	p := c.start(s)
	var writer sync.WaitGroup
	writer.Go(c.write)
	until(c.T, "some events are stored", func() bool { return r.stored() > len(c.lines)/10 })
	r.stop()
	n.set(c, "127.0.0.3")
	r = c.receiveAt(strings.Replace(r.address(), "127.0.0.2", "127.0.0.3", 1))
	writer.Wait()
	c.patience += hostsKept
	c.finish(p, r, time.Now())
}
