// Tests of a webhook's name that resolves to nothing for a while, or to another address.

package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// nameServer answers each question for an IPv4 address with the one that it has.
type nameServer struct {
	net.PacketConn
	address atomic.Pointer[string] // "": there is no such name
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{PacketConn: conn}
	s.set("")
	var served sync.WaitGroup
	served.Go(func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(s.answer(b[:n]), from)
		}
	})
	t.Cleanup(func() { conn.Close(); served.Wait() })
	return s
}

func (s *nameServer) set(address string) { s.address.Store(&address) }

// answer makes an answer of a query (RFC 1035, section 4.1).
func (s *nameServer) answer(query []byte) []byte {
	end := 12 // of the header, then of the question
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	kind := query[end-3]
	answer := append([]byte(nil), query[:end]...)
	answer[2], answer[3] = 0x81, 0x80                         // an answer, recursion as desired
	answer[6], answer[7], answer[10], answer[11] = 0, 0, 0, 0 // no records but the question
	switch address := *s.address.Load(); {
	case address == "":
		answer[3] |= 3 // no such name
	case kind == 1: // A
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, net.ParseIP(address).To4()...)
	}
	return answer
}

// clientBy is a Client that resolves names by s.
func clientBy(t *testing.T, s *nameServer, url string) *Client {
	t.Helper()
	d := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.LocalAddr().String())
	}}}
	c, err := newClient(config(url), d.DialContext)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// countingAt is a receiver at an address that counts.
func countingAt(t *testing.T, address string) (s *httptest.Server, requests *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	requests = &atomic.Int32{}
	s = unstarted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests.Add(1)
	})
	s.Listener.Close()
	s.Listener = l
	s.Start()
	return s, requests
}

func TestANameThatCannotBeResolvedForAWhile(t *testing.T) {
	s, requests := countingAt(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	names := newNameServer(t)
	c := clientBy(t, names, "http://webhook.test:"+port+"/audit")
	for range 2 {
		err := c.Send(t.Context(), []byte(list))
		if unknown, ok := errors.AsType[*net.DNSError](err); !ok || !unknown.IsNotFound {
			t.Fatalf("got %v, want a name that is not found", err)
		}
		if want := "POST http://webhook.test:" + port + "/audit: dial tcp: lookup webhook.test"; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %s\nwant it to begin with %s", err, want)
		}
	}
	names.set("127.0.0.1")
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Error(err)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// A connection that works is kept; once it fails, the name is resolved anew.
func TestANameThatMovesIsFollowed(t *testing.T) {
	before, came := countingAt(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(before.Listener.Addr().String())
	_, cameAfter := countingAt(t, "127.0.0.2:"+port)
	names := newNameServer(t)
	names.set("127.0.0.1")
	c := clientBy(t, names, "http://webhook.test:"+port)
	for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
		names.set(address)
		if err := c.Send(t.Context(), []byte(list)); err != nil {
			t.Error(err)
		}
	}
	if came.Load() != 2 || cameAfter.Load() != 0 {
		t.Errorf("%d and %d requests, want 2 and 0 over one connection", came.Load(), cameAfter.Load())
	}
	before.Close()
	// The end of the connection may cross with this request.
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		err = c.Send(t.Context(), []byte(list))
		if err != nil {
			t.Error(err)
		}
	}
	if came.Load() != 2 || cameAfter.Load() != 1 {
		t.Errorf("%d and %d requests, want 2 and 1", came.Load(), cameAfter.Load())
	}
}
