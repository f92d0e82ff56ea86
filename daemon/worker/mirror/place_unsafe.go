package mirror

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve reserves address space without memory: at the given address if that is free, else
// elsewhere.
func reserve(address, bytes uint64) ([]byte, error) {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	got, err := unix.MmapPtr(
		-1,
		0,
		unsafe.Add(nil, address),
		uintptr(bytes),
		unix.PROT_NONE,
		flags|unix.MAP_FIXED_NOREPLACE,
	)
	if err != nil {
		got, err = unix.MmapPtr(-1, 0, nil, uintptr(bytes), unix.PROT_NONE, flags)
	}
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(got), bytes), nil
}

// over maps part of a file over reserved pages.
func over(pages []byte, file *os.File, offset int64) error {
	_, err := unix.MmapPtr(int(file.Fd()), offset, unsafe.Pointer(&pages[0]), uintptr(len(pages)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map %s: %w", file.Name(), err)
	}
	return nil
}

func unmap(pages []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(pages)), uintptr(len(pages)))
}
