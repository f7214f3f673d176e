// This file compresses bodies.

package webhook

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
)

// compressed is a body as gzip (RFC 1952). It goes back to its Client's pool.
type compressed struct {
	bytes.Buffer
	w *gzip.Writer
}

// compress never fails: a bytes.Buffer takes everything.
func (c *Client) compress(body []byte) *compressed {
	z, ok := c.pool.Get().(*compressed)
	if !ok {
		z = &compressed{}
		// Audit events repeat themselves: the fastest level makes them fifteen times
		// smaller. The default level, twice as dear, makes it twenty.
		z.w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	}
	z.Reset()
	z.w.Reset(&z.Buffer)
	_, _ = z.w.Write(body)
	_ = z.w.Close()
	return z
}
