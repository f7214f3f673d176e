package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
)

// This file holds the inputs of the bundled host.

// records is an input that is read again and again, each time with other auditIDs: the
// same event is delivered once.
type records struct {
	form   string
	option string // --log or --msgpack
	file   string
	each   int // events in the file
	events int // in all
	first  int // the number that its first event gets
}

// of is the same input with at least n events in all.
func (r records) of(n int) records {
	r.events = (n + r.each - 1) / r.each * r.each
	return r
}

func (r records) args() []string {
	return []string{"--distinct", strconv.Itoa(r.first), "--repeat", strconv.Itoa(r.events / r.each), r.option, r.file}
}

// chunk is how many events a chunk has so that all have the same number, 2,500 at most.
func (r records) chunk() int {
	for n := min(r.each, 2500); ; n-- {
		if r.each%n == 0 {
			return n
		}
	}
}

// everyMillion are the host's arguments for such chunks, and a report on its memory at
// each million of events.
func (r records) everyMillion() []string {
	reports := max(1, (million+r.chunk()/2)/r.chunk())
	return append([]string{"--chunk-records", strconv.Itoa(r.chunk()), "--rss-every", strconv.Itoa(reports)}, r.args()...)
}

const million = 1_000_000

// parsedRecords are what in_tail made of a log with the json parser.
func parsedRecords(dir string, n int) (records, error) {
	f, err := os.Open("plugin/record/testdata/tail-parsed.msgpack.gz")
	if err != nil {
		return records{}, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return records{}, err
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(z); err != nil {
		return records{}, err
	}
	r := records{form: "parsed", option: "--msgpack", file: filepath.Join(dir, "parsed.msgpack"), each: bytes.Count(text.Bytes(), mark)}
	return r.of(n), os.WriteFile(r.file, text.Bytes(), 0o644)
}
