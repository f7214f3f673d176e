//go:build floor

// Command floor is a Fluent Bit output that does as little as an output in Go
// can: it copies a chunk's bytes into bodies of a megabyte and POSTs them. Nothing
// is decoded, checked, retried or remembered. It is what out_k8saudit is held
// against, and of no other use: what it sends no webhook understands.
//
// The tag floor keeps it out of ./...: there is one cgo file in the product.
package main

import "C"

import (
	"bytes"
	"io"
	"net/http"
	"unsafe"

	"github.com/fluent/fluent-bit-go/output"
)

const bodySize = 1 << 20

// recordStart is how in_tail begins a record: a pair of a pair, and a time of
// extension type 0.
var recordStart = []byte{0x92, 0x92, 0xd7, 0x00}

var (
	url    string
	body   = make([]byte, 0, bodySize)
	client = http.Client{Transport: &http.Transport{WriteBufferSize: bodySize + 64<<10}}
)

//export FLBPluginRegister
func FLBPluginRegister(def unsafe.Pointer) C.int {
	code := output.FLBPluginRegister(def, "floor", "copies and posts")
	(*[3]C.int)(def)[2] |= 2048 // FLB_OUTPUT_SYNCHRONOUS, as out_k8saudit has it
	return C.int(code)
}

//export FLBPluginInit
func FLBPluginInit(ctx unsafe.Pointer) C.int {
	url = output.FLBPluginConfigKey(ctx, "URL")
	return output.FLB_OK
}

//export FLBPluginFlush
func FLBPluginFlush(data unsafe.Pointer, length C.size_t, _ *C.char) C.int {
	for chunk := unsafe.Slice((*byte)(data), int(length)); len(chunk) > 0; {
		n := cut(chunk)
		body = append(body[:0], chunk[:n]...)
		if !post() {
			return output.FLB_RETRY
		}
		chunk = chunk[n:]
	}
	return output.FLB_OK
}

//export FLBPluginExit
func FLBPluginExit() C.int { return output.FLB_OK }

// cut is how many bytes go into the next body: it ends where a record seems to,
// so that the receiver can count.
func cut(chunk []byte) int {
	if len(chunk) <= bodySize {
		return len(chunk)
	}
	if i := bytes.LastIndex(chunk[:bodySize], recordStart); i > 0 {
		return i
	}
	if i := bytes.Index(chunk[bodySize:], recordStart); i >= 0 {
		return bodySize + i
	}
	return len(chunk)
}

// post blocks until the receiver has answered.
func post() bool {
	answer, err := client.Post(url, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return err == nil && answer.StatusCode == http.StatusOK
}

func main() {}
