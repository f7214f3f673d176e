// This file reads lines with bounded memory.

package deadletter

import (
	"bufio"
	"io"
)

// lineReader reads lines of any length, and keeps no more than the first limit bytes
// of one.
type lineReader struct {
	in    *bufio.Reader
	limit int
	long  []byte // a line that did not fit into the reader's buffer
}

// next returns the next line without its line feed, which the last one may lack,
// and its full length. The bytes are valid until the next call. The error is io.EOF
// when there is none, else that of the reader.
func (l *lineReader) next() (line []byte, length int, err error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		ends := err == nil
		if ends {
			part = part[:len(part)-1]
		}
		before := length
		length += len(part)
		if before == 0 && ends {
			return part[:min(length, l.limit)], length, nil
		}
		l.long = append(l.long, part[:min(len(part), l.limit-len(l.long))]...)
		switch {
		case ends, err == io.EOF && length > 0:
			return l.long, length, nil
		case err != bufio.ErrBufferFull:
			return nil, 0, err
		}
	}
}
