// Command out_k8saudit is the Fluent Bit output plugin k8saudit, a c-shared
// library. This file is all of its cgo: the callbacks that Fluent Bit calls
// (src/proxy/go/go.c), each of which converts, calls package plugin, converts
// back, and recovers. Nothing runs when the library is loaded. FLBPluginInit and
// FLBPluginUnregister come by way of forked.c.
package main

/*
#include <stddef.h>

void k8saudit_note_process(void);
*/
import "C"

import (
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/fluent/fluent-bit-go/output"

	"out_k8saudit/plugin"
)

// version is set by the linker.
var version = "unknown"

// process is what all instances share; Fluent Bit loads a library once and
// keeps it loaded over a hot reload.
var process = plugin.Process{Version: version, Log: os.Stderr}

// synchronous is FLB_OUTPUT_SYNCHRONOUS (flb_output.h): the engine hands over
// one chunk at a time to each instance and keeps the others, so that a stop
// finds one flush to finish and not a queue of them.
const synchronous = 2048

// handle is what Fluent Bit's context of an instance refers to. The binding
// never lets go of it, so it must not keep an instance that has exited.
type handle struct {
	instance atomic.Pointer[plugin.Instance]
}

//export FLBPluginRegister
func FLBPluginRegister(def unsafe.Pointer) (result C.int) {
	defer recovered("register", &result, -1)
	C.k8saudit_note_process()
	fewProcessors()
	result = C.int(output.FLBPluginRegister(def, "k8saudit", "Kubernetes audit events to an audit webhook"))
	// struct flb_plugin_proxy_def begins with the ints type, proxy and flags; the
	// binding writes all three and knows no flag.
	(*[3]C.int)(def)[2] |= synchronous
	return result
}

// fewProcessors keeps the Go runtime, which is this library's own, to two processors
// unless the environment says how many: one for the thread that Fluent Bit flushes on
// and one to send on. Its engine, one thread, cannot keep more busy, and with as many as
// the machine has the runtime wakes threads for each request that find nothing to do,
// beside a control plane that could use the time.
func fewProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	}
}

//export k8sauditInit
func k8sauditInit(ctx unsafe.Pointer) (result C.int) {
	defer recovered("init", &result, plugin.Error)
	// net/http writes there what a receiver sends unasked, which may be an event.
	log.SetOutput(io.Discard)
	instance, err := process.Init(func(key string) string { return output.FLBPluginConfigKey(ctx, key) })
	if err != nil {
		return C.int(plugin.Error)
	}
	h := &handle{}
	h.instance.Store(instance)
	output.FLBPluginSetContext(ctx, h)
	return C.int(plugin.OK)
}

//export FLBPluginFlushCtx
func FLBPluginFlushCtx(ctx, data unsafe.Pointer, length C.size_t, tag *C.char) (result C.int) {
	defer recovered("flush", &result, plugin.Retry)
	if h, ok := output.FLBPluginGetContext(ctx).(*handle); ok {
		if instance := h.instance.Load(); instance != nil {
			return C.int(instance.Flush(bytesOf(data, length), C.GoString(tag)))
		}
	}
	return C.int(plugin.Retry)
}

//export FLBPluginFlush
func FLBPluginFlush(data unsafe.Pointer, length C.size_t, tag *C.char) (result C.int) {
	defer recovered("flush", &result, plugin.Retry)
	return C.int(process.FlushOnly(bytesOf(data, length), C.GoString(tag)))
}

//export FLBPluginOutputPreExit
func FLBPluginOutputPreExit(reload C.int) {
	var result C.int
	defer recovered("exit", &result, plugin.Error)
	process.PreExit(reload != 0)
}

//export FLBPluginExitCtx
func FLBPluginExitCtx(ctx unsafe.Pointer) (result C.int) {
	defer recovered("exit", &result, plugin.Error)
	if h, ok := output.FLBPluginGetContext(ctx).(*handle); ok {
		if instance := h.instance.Swap(nil); instance != nil {
			instance.Exit()
		}
	}
	return C.int(plugin.OK)
}

//export FLBPluginExit
func FLBPluginExit() (result C.int) {
	defer recovered("exit", &result, plugin.Error)
	process.ExitAll()
	return C.int(plugin.OK)
}

//export k8sauditUnregister
func k8sauditUnregister(def unsafe.Pointer) {
	var result C.int
	defer recovered("unregister", &result, plugin.Error)
	output.FLBPluginUnregister(def)
}

// bytesOf views Fluent Bit's memory in place. It is valid until the callback
// returns; package plugin keeps nothing of it beyond that.
func bytesOf(data unsafe.Pointer, length C.size_t) []byte {
	return unsafe.Slice((*byte)(data), int(length))
}

// recovered keeps a panic from ending the process, which is Fluent Bit's.
func recovered(callback string, result *C.int, answer plugin.Answer) {
	if v := recover(); v != nil {
		*result = C.int(answer)
		fmt.Fprintf(os.Stderr, "[error] [output:k8saudit] panic in %s, please report this: %v\n%s", callback, v, debug.Stack())
	}
}

func main() {}
