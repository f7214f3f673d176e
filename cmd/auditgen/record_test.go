// This test is of the plugin's own reading of the events.

package main

import (
	"encoding/binary"
	"testing"

	"out_k8saudit/plugin/record"
)

// The plugin takes every line as a raw line, and passes it on byte for byte.
func TestThePluginTakesEveryLine(t *testing.T) {
	g := newGenerator(requestResponse, 5)
	g.largeEvery, g.largeSize = 500, 100_000
	r := record.NewReader(&record.Options{LogKey: "log"})
	for _, line := range lines(g, 5000) {
		line = line[:len(line)-1]
		chunk := append([]byte{0x92, 0, 0x81, 0xa3}, "log"...) // [0, {"log": line}]
		chunk = append(binary.BigEndian.AppendUint32(append(chunk, 0xdb), uint32(len(line))), line...)
		r.Reset(chunk, nil)
		if event, ok := r.Next(nil); !ok || string(event) != string(line) {
			t.Fatalf("got %s of %s", event, line)
		}
	}
}
