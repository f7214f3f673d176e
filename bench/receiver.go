package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// This file is the webhook at the other end: it reads, counts, discards and
// answers 200. It runs as a process of its own, which is this program again.

// mark is in each event once, in whatever form an output writes it.
var mark = []byte("auditID")

// counts is what a receiver got since it was last asked.
type counts struct {
	Bodies, Bytes, Events int
}

// discard is the handler: POST anything; GET says what came, and starts anew.
type discard struct {
	delay   time.Duration // before each answer
	buffers sync.Pool     // of *bytes.Buffer

	mu  sync.Mutex
	got counts
}

func (d *discard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		d.mu.Lock()
		defer d.mu.Unlock()
		_ = json.NewEncoder(w).Encode(d.got)
		d.got = counts{}
		return
	}
	body, _ := d.buffers.Get().(*bytes.Buffer)
	if body == nil {
		body = new(bytes.Buffer)
	}
	defer d.buffers.Put(body)
	body.Reset()
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	size, err := body.ReadFrom(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		err = gunzip(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events := bytes.Count(body.Bytes(), mark)
	d.mu.Lock()
	d.got.Bodies++
	d.got.Bytes += int(size)
	d.got.Events += events
	d.mu.Unlock()
	time.Sleep(d.delay)
}

// gunzip puts what the body holds in its place.
func gunzip(body *bytes.Buffer) error {
	z, err := gzip.NewReader(bytes.NewReader(bytes.Clone(body.Bytes())))
	if err != nil {
		return err
	}
	body.Reset()
	_, err = body.ReadFrom(z)
	return err
}

// receive serves on a port of its own until standard input ends, and prints the
// address first.
func receive(delay time.Duration) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		listener.Close()
	}()
	if err := http.Serve(listener, &discard{delay: delay}); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// receiver is such a process, seen from the one that measures.
type receiver struct {
	address string
	cmd     *exec.Cmd
	input   io.Closer
}

func startReceiver(delay time.Duration) (*receiver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &receiver{cmd: exec.Command(self, "-receive", "-delay", delay.String())}
	r.cmd.Stderr = os.Stderr
	if r.input, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("the receiver does not start: %w", err)
	}
	r.address = strings.TrimSpace(line)
	return r, nil
}

func (r *receiver) url() string { return "http://" + r.address + "/audit" }

// counts returns what came since the last call.
func (r *receiver) counts() (got counts, err error) {
	answer, err := http.Get(r.url())
	if err != nil {
		return got, err
	}
	defer answer.Body.Close()
	return got, json.NewDecoder(answer.Body).Decode(&got)
}

func (r *receiver) stop() {
	r.input.Close()
	_ = r.cmd.Wait()
}
