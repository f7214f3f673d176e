package ledger

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is memory outside Go's heap. On the heap a table would have the collector
// grow the process to twice its size.

const lineSize = int(unsafe.Sizeof(line{}))

// reserved is how many lines have an address at first: 64 MB, for 4.4 million entries. What
// is not used of it is no memory.
const reserved = 1 << 20

// newLines returns n lines of zeros, with room to grow. Where the kernel refuses, they come
// from the heap.
func newLines(n int) []line {
	room := max(reserved, 4*n)
	mem, err := unix.Mmap(-1, 0, room*lineSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return make([]line, n)
	}
	return preferLargePages(unsafe.Slice((*line)(unsafe.Pointer(unsafe.SliceData(mem))), room)[:n])
}

// extend returns lines with zeros behind them, n in all.
func extend(lines []line, n int) []line {
	if n <= cap(lines) {
		return preferLargePages(lines[:n])
	}
	more := newLines(n)
	copy(more, lines)
	freeLines(lines)
	return more
}

// largePagesFrom is how many lines make two large pages. A smaller table would take up
// more memory with them than it has.
const largePagesFrom = 4 << 20 / lineSize

// preferLargePages asks for them, which costs nothing where it was asked before: look-ups
// are all over the table, and with large pages fewer of them miss the TLB. A kernel that
// does not know the advice does without.
func preferLargePages(lines []line) []line {
	if len(lines) >= largePagesFrom {
		_ = unix.Madvise(bytesOf(lines[:cap(lines)]), unix.MADV_HUGEPAGE)
	}
	return lines
}

// freeLines gives lines back, which nothing may refer to any more.
func freeLines(lines []line) {
	if len(lines) > 0 {
		_ = unix.Munmap(bytesOf(lines[:cap(lines)])) // refuses what is from the heap, which the collector frees
	}
}

func bytesOf(lines []line) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(lines))), len(lines)*lineSize)
}
