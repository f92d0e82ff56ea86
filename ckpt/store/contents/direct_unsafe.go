package contents

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// pageAligned reports whether a content begins at a page boundary, as direct I/O requires.
func pageAligned(content []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(content)))%image.PageBytes == 0
}

// resident reports whether a mapped page is in memory.
func resident(page []byte) bool {
	var state byte
	_, _, errno := unix.Syscall(
		unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(unsafe.SliceData(page))),
		uintptr(len(page)),
		uintptr(unsafe.Pointer(&state)),
	)
	return errno != 0 || state&1 != 0
}
