package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// This file makes the audit logs that are delivered.

// auditLog returns the lines of a gzipped audit log, without their ends.
func auditLog(file string) ([][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		if bytes.Count(line, mark) != 1 {
			return nil, fmt.Errorf("%s: line %d does not have %q once, by which events are counted", file, i+1, mark)
		}
	}
	return lines, nil
}

// events gives n lines: those of a log again and again, each with an auditID of
// its own.
func events(lines [][]byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = numbered(lines[i%len(lines)], i)
	}
	return out
}

// numbered is a copy of the line whose auditID begins with the number: its last digits
// where a client chose a shorter ID.
func numbered(line []byte, n int) []byte {
	line = bytes.Clone(line)
	key := []byte(`"auditID":"`)
	if at := bytes.Index(line, key); at >= 0 {
		id := line[at+len(key):]
		digits := fmt.Sprintf("%08x", n)
		copy(id, digits[len(digits)-min(len(digits), max(0, bytes.IndexByte(id, '"'))):])
	}
	return line
}

// large is an event whose line has size bytes or a few more: the line with one
// more field, a text as long as that takes, with the quotes that objects have.
func large(line []byte, size int) []byte {
	out := append(bytes.Clone(line[:len(line)-1]), `,"responseObject":{"data":"`...)
	for piece := []byte(`{\"kind\":\"ConfigMap\",\"name\":\"n\u003c1\u003e\"}, `); len(out) < size; {
		out = append(out, piece...)
	}
	return append(out, `"}}`...)
}

// input is what one scenario's pipelines read.
type input struct {
	path   string   // of in_tail: a file or a pattern
	fed    [][]byte // in place of path: lines that are written meanwhile
	events int
	chunks int // that it must become; 0: any number
}

// writeLog makes an input of one file.
func writeLog(file string, lines [][]byte) (input, error) {
	f, err := os.Create(file)
	if err != nil {
		return input{}, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, line := range lines {
		_, _ = w.Write(line)
		_ = w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return input{}, err
	}
	return input{path: file, events: len(lines)}, f.Close()
}

// smallChunk is how many events a small chunk has.
const smallChunk = 10

// writeSmallChunks makes an input of many files of 10 lines each. in_tail gives
// each file a tag of its own, so each becomes a chunk of its own.
func writeSmallChunks(dir string, lines [][]byte) (input, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return input{}, err
	}
	in := input{path: filepath.Join(dir, "*.log"), events: len(lines) / smallChunk * smallChunk, chunks: len(lines) / smallChunk}
	for i := range in.chunks {
		if _, err := writeLog(filepath.Join(dir, strconv.Itoa(i)+".log"), lines[i*smallChunk:(i+1)*smallChunk]); err != nil {
			return input{}, err
		}
	}
	return in, nil
}
