// This file reads the body of a request: its size on the wire, and its encoding.

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

var (
	errTooLarge   = errors.New("request body too large")
	errBrokenGzip = errors.New("request body is not what gzip makes")
)

// wire is a body as it comes.
type wire struct {
	io.Reader
	size int64
	err  error // why it ended, but for its end
}

func (b *wire) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.size += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// gzipped reports whether r says that its body is compressed.
func gzipped(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip")
}

// readBody returns the body of r, decompressed, and how many bytes came. The error is
// errTooLarge for more than limit bytes after decompression, errBrokenGzip, or why the
// body ended early. All that comes is read in any case: a sender that is still writing
// would see a reset and not the answer.
func readBody(r *http.Request, limit int64) (body []byte, size int64, err error) {
	in := &wire{Reader: r.Body}
	body, err = decoded(r, in, limit)
	_, _ = io.Copy(io.Discard, in)
	if in.err != nil {
		return nil, in.size, in.err
	}
	return body, in.size, err
}

func decoded(r *http.Request, in io.Reader, limit int64) ([]byte, error) {
	var buffer bytes.Buffer
	buffer.Grow(int(min(max(r.ContentLength, 0), limit)) + bytes.MinRead)
	if gzipped(r) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, errBrokenGzip
		}
		in = z
	}
	_, err := buffer.ReadFrom(io.LimitReader(in, limit+1))
	switch {
	case int64(buffer.Len()) > limit:
		return nil, errTooLarge
	case err != nil && gzipped(r):
		return nil, errBrokenGzip
	}
	return buffer.Bytes(), err
}
