//go:build floor

// Command floor is a Fluent Bit output that does as little as an output in Go can:
// it POSTs the events of a chunk in bodies of a megabyte, with nothing retried or
// remembered. Its keys say how much it does with them, and how it POSTs, so that what
// each step costs can be told. It is what out_k8saudit is held against, and of no
// other use.
//
// The tag floor keeps it out of ./...: there is one cgo file in the product.
package main

// This file is what Fluent Bit calls.

import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/fluent/fluent-bit-go/output"
)

var (
	events func(chunk []byte, post func(body []byte) bool) bool // the key Events
	post   func(body []byte) bool                               // the key Post
)

//export FLBPluginRegister
func FLBPluginRegister(def unsafe.Pointer) C.int {
	code := output.FLBPluginRegister(def, "floor", "copies and posts")
	(*[3]C.int)(def)[2] |= 2048 // FLB_OUTPUT_SYNCHRONOUS, as out_k8saudit has it
	return C.int(code)
}

//export FLBPluginInit
func FLBPluginInit(ctx unsafe.Pointer) C.int {
	switch how := output.FLBPluginConfigKey(ctx, "Events"); how {
	case "":
		events = copied
	case "joined":
		events = joined
	case "read":
		events = read(false)
	case "restored":
		events = read(true)
	default:
		fmt.Fprintln(os.Stderr, "floor: Events", how)
		return output.FLB_ERROR
	}
	url := output.FLBPluginConfigKey(ctx, "URL")
	switch how := output.FLBPluginConfigKey(ctx, "Post"); how {
	case "":
		post = byNetHTTP(url)
	case "by_hand":
		post = byHand(url)
	case "never":
		post = func([]byte) bool { return true }
	default:
		fmt.Fprintln(os.Stderr, "floor: Post", how)
		return output.FLB_ERROR
	}
	return output.FLB_OK
}

//export FLBPluginFlush
func FLBPluginFlush(data unsafe.Pointer, length C.size_t, _ *C.char) C.int {
	if !events(unsafe.Slice((*byte)(data), int(length)), post) {
		return output.FLB_RETRY
	}
	return output.FLB_OK
}

//export FLBPluginExit
func FLBPluginExit() C.int { return output.FLB_OK }

func main() {}
