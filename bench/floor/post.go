//go:build floor

package main

// This file POSTs: with net/http, and without it on the thread that flushes.

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
)

// byNetHTTP blocks until the receiver has answered.
func byNetHTTP(to string) func(body []byte) bool {
	client := http.Client{Transport: &http.Transport{WriteBufferSize: 2*bodySize + 64<<10}}
	return func(body []byte) bool {
		answer, err := client.Post(to, "application/octet-stream", bytes.NewReader(body))
		if err != nil {
			return false
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		return err == nil && answer.StatusCode == http.StatusOK
	}
}

// byHand writes and reads with system calls that block, so that no other thread of the
// runtime has a part in it. It understands the answers of the receiver that it is
// measured with, which have no body, and no others.
func byHand(to string) func(body []byte) bool {
	var conn *os.File
	var buf [4096]byte
	return func(body []byte) bool {
		if conn == nil {
			u, err := url.Parse(to)
			if err != nil {
				return false
			}
			c, err := net.Dial("tcp", u.Host)
			if err != nil {
				return false
			}
			defer c.Close()
			if conn, err = c.(*net.TCPConn).File(); err != nil {
				return false
			}
			conn.Fd() // makes it block
		}
		head := fmt.Appendf(buf[:0], "POST /audit HTTP/1.1\r\nHost: floor\r\nContent-Length: %d\r\n\r\n", len(body))
		if _, err := conn.Write(append(head, body...)); err != nil {
			return false
		}
		n := 0
		for n < len(buf) && !bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
			more, err := conn.Read(buf[n:])
			if err != nil {
				return false
			}
			n += more
		}
		return bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200 "))
	}
}
