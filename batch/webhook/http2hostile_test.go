// Tests of HTTP/2 receivers that break off or misbehave, frame by frame.

package webhook

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The frames and codes of RFC 9113, sections 6 and 7.
const (
	frameData      = 0x0
	frameHeaders   = 0x1
	frameRstStream = 0x3
	frameSettings  = 0x4
	framePing      = 0x6
	frameGoAway    = 0x7
	flagEnd        = 0x1 // of a stream
	flagEndHeaders = 0x4

	codeProtocolError = 0x1
	codeRefusedStream = 0x7
)

// frames is one HTTP/2 connection as its server sees it.
type frames struct{ *tls.Conn }

func (f frames) write(kind, flags byte, stream uint32, payload ...byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	_, err := f.Write(append(b, payload...))
	return err
}

func (f frames) read() (kind, flags byte, stream uint32, err error) {
	var head [9]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, 0, 0, err
	}
	length := int64(binary.BigEndian.Uint32(head[:]) >> 8)
	_, err = io.CopyN(io.Discard, f, length)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]), err
}

// request reads to the end of a request and returns its stream.
func (f frames) request() (stream uint32, err error) {
	for {
		kind, flags, stream, err := f.read()
		if err != nil || kind == frameData && flags&flagEnd != 0 {
			return stream, err
		}
	}
}

func (f frames) code(kind byte, stream, code uint32) error {
	return f.write(kind, 0, stream, binary.BigEndian.AppendUint32(nil, code)...)
}

// goAway says that no stream after last was or will be looked at.
func (f frames) goAway(last uint32) error {
	return f.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), 0)...)
}

// accept answers 200: the eighth entry of HPACK's static table.
func (f frames) accept(stream uint32) error {
	return f.write(frameHeaders, flagEndHeaders|flagEnd, stream, 0x88)
}

// http2Peer serves HTTP/2 connections by hand after the preface, and returns a Client
// to it.
func http2Peer(t *testing.T, timeout time.Duration, serve func(n int, f frames)) *Client {
	t.Helper()
	a := newAuthority(t, "ours")
	pair := pairFor(t, a, "127.0.0.1")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				f := frames{conn.(*tls.Conn)}
				const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				if _, err := io.CopyN(io.Discard, conn, int64(len(preface))); err != nil {
					return
				}
				if f.write(frameSettings, 0, 0) == nil {
					serve(n, f)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	cfg := config("https://" + l.Addr().String())
	cfg.CAFile, cfg.HTTP2, cfg.RequestTimeout = file(t, a.pem), true, timeout
	return client(t, cfg)
}

// acceptAll accepts whatever comes.
func acceptAll(f frames) {
	for {
		stream, err := f.request()
		if err != nil || f.accept(stream) != nil {
			return
		}
	}
}

// What a receiver has read to its end it may have stored, whatever it says after that.
func TestHTTP2ARequestThatWasReadIsNotRepeatedHere(t *testing.T) {
	for name, end := range map[string]func(f frames, stream uint32) error{
		"PROTOCOL_ERROR": func(f frames, stream uint32) error { return f.code(frameRstStream, stream, codeProtocolError) },
		"REFUSED_STREAM": func(f frames, stream uint32) error { return f.code(frameRstStream, stream, codeRefusedStream) },
		"GOAWAY":         func(f frames, _ uint32) error { return f.goAway(0) },
		"end":            func(f frames, _ uint32) error { return f.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			c := http2Peer(t, 30*time.Second, func(n int, f frames) {
				for {
					stream, err := f.request()
					if err != nil {
						return
					}
					if requests.Add(1) == 1 {
						if end(f, stream) != nil {
							return
						}
						continue
					}
					if f.accept(stream) != nil {
						return
					}
				}
			})
			if err := c.Send(t.Context(), []byte(list)); err == nil {
				t.Error("the first Send: nil")
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests for one Send, want 1", n)
			}
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Errorf("the next Send: %v", err)
			}
		})
	}
}

// A GOAWAY ends a connection, not the delivery. One that crosses with the next request
// may fail it, for its body was begun; the one after that has a new connection.
func TestHTTP2AGoAwayIsFollowed(t *testing.T) {
	var conns atomic.Int32
	c := http2Peer(t, 30*time.Second, func(_ int, f frames) {
		conns.Add(1)
		stream, err := f.request()
		if err == nil && f.accept(stream) == nil && f.goAway(stream) == nil {
			untilClosed(f)
		}
	})
	const accepted = 5
	for range accepted {
		err := c.Send(t.Context(), []byte(list))
		if errors.Is(err, errBrokenOff) {
			err = c.Send(t.Context(), []byte(list))
		}
		if err != nil {
			t.Error(err)
		}
	}
	if n := conns.Load(); n != accepted {
		t.Errorf("%d connections, want one for each POST that was accepted", n)
	}
}

// Frames that cost the sender an answer each, without an end: the request ends at
// Request_Timeout, and the next one works.
func TestHTTP2FloodsEndWithRequestTimeout(t *testing.T) {
	for name, flood := range map[string]func(f frames) error{
		"SETTINGS": func(f frames) error { return f.write(frameSettings, 0, 0) },
		"PING":     func(f frames) error { return f.write(framePing, 0, 0, make([]byte, 8)...) },
	} {
		t.Run(name, func(t *testing.T) {
			c := http2Peer(t, 300*time.Millisecond, func(n int, f frames) {
				if n > 1 {
					acceptAll(f)
					return
				}
				if _, err := f.request(); err != nil {
					return
				}
				go untilClosed(f)
				for flood(f) == nil {
				}
			})
			if err := c.Send(t.Context(), []byte(list)); err == nil {
				t.Error("Send: nil")
			}
			c.timeout = 30 * time.Second
			if err := c.Send(t.Context(), []byte(list)); err != nil {
				t.Errorf("the next Send: %v", err)
			}
		})
	}
}

func TestHTTP2AFloodOfHeadersIsCut(t *testing.T) {
	c := http2Peer(t, 30*time.Second, func(n int, f frames) {
		if n > 1 {
			acceptAll(f)
			return
		}
		stream, err := f.request()
		if err != nil {
			return
		}
		// x: yyy…, a literal that is not indexed, 16 kB to a frame (RFC 7541, 6.2.2).
		field := append([]byte{0x88, 0x00, 1, 'x', 0x7f, 0x81, 0x7c}, strings.Repeat("y", 16000)...)
		if f.write(frameHeaders, 0, stream, field...) != nil {
			return
		}
		for f.write(0x9, 0, stream, field[1:]...) == nil { // CONTINUATION
		}
	})
	if err := c.Send(t.Context(), []byte(list)); err == nil {
		t.Error("Send: nil")
	}
	if err := c.Send(t.Context(), []byte(list)); err != nil {
		t.Errorf("the next Send: %v", err)
	}
}

func TestHTTP2EndlessAnswers(t *testing.T) {
	chunk := make([]byte, 16000)
	for _, tt := range []struct {
		name   string
		header byte // :status of HPACK's static table
		status int
	}{{"200", 0x88, 0}, {"500", 0x8e, 500}} {
		t.Run(tt.name, func(t *testing.T) {
			c := http2Peer(t, 30*time.Second, func(_ int, f frames) {
				for {
					stream, err := f.request()
					if err != nil || f.write(frameHeaders, flagEndHeaders, stream, tt.header) != nil {
						return
					}
					// No more than the window, for a sender that does not read gives none.
					for range 40 {
						if f.write(frameData, 0, stream, chunk...) != nil {
							return
						}
					}
				}
			})
			for range 2 {
				err := c.Send(t.Context(), []byte(list))
				answer, refused := errors.AsType[*Error](err)
				if tt.status == 0 && err != nil || tt.status != 0 && (!refused || answer.Status != tt.status) {
					t.Errorf("got %v, want %s", err, tt.name)
				}
			}
		})
	}
}
