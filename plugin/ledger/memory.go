package ledger

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is memory outside Go's heap. On the heap a table would have the collector
// grow the process to twice its size.

const lineSize = int(unsafe.Sizeof(line{}))

// newLines returns n lines of zeros. Where the kernel refuses, they come from the heap.
func newLines(n int) []line {
	mem, err := unix.Mmap(-1, 0, n*lineSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return make([]line, n)
	}
	// Look-ups are all over the table: with large pages fewer of them miss the TLB. A
	// kernel that does not know the advice does without.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return unsafe.Slice((*line)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}

// dropLines gives the memory of lines back, whose content is lost.
func dropLines(lines []line) {
	// Of the heap too these are whole pages that hold nothing else.
	_ = unix.Madvise(bytesOf(lines), unix.MADV_DONTNEED)
}

// freeLines gives lines back, which nothing may refer to any more.
func freeLines(lines []line) {
	if len(lines) > 0 {
		_ = unix.Munmap(bytesOf(lines)) // refuses what is from the heap, which the collector frees
	}
}

func bytesOf(lines []line) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(lines))), len(lines)*lineSize)
}
