package space

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFixed maps a file, or anonymous memory if file is nil, over a part of the window.
func mapFixed(place []byte, file *os.File, offset int64) error {
	fd, flags := -1, unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE
	if file != nil {
		fd, flags = int(file.Fd()), unix.MAP_FIXED|unix.MAP_SHARED
	}
	_, err := unix.MmapPtr(
		fd,
		offset,
		unsafe.Pointer(unsafe.SliceData(place)),
		uintptr(len(place)),
		unix.PROT_READ|unix.PROT_WRITE,
		flags,
	)
	return err
}
