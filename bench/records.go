package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
)

// This file holds the inputs of the bundled host.

// records is an input that is read again and again.
type records struct {
	form   string
	option string // --log or --msgpack
	file   string
	each   int // events in the file
	events int // in all
}

// of is the same input with at least n events in all.
func (r records) of(n int) records {
	r.events = (n + r.each - 1) / r.each * r.each
	return r
}

func (r records) args() []string {
	return []string{"--repeat", strconv.Itoa(r.events / r.each), r.option, r.file}
}

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
