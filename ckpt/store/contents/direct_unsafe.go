package contents

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// pageAligned says whether a content begins at a page, as a device wants it that reads memory
// itself.
func pageAligned(content []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(content)))%image.PageBytes == 0
}

// resident says whether a mapped page is in memory.
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
