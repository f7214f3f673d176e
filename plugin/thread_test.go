package plugin

import "unsafe"

// uintptrOf is the address of b's first byte, for a system call that reads it
// before b is used last.
func uintptrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
