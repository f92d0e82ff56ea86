package mirror

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve reserves address space without memory: at the given address if that is free, else
// elsewhere, at a multiple of granule.
func reserve(address, bytes, granule uint64) ([]byte, error) {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	got, err := unix.MmapPtr(
		-1,
		0,
		unsafe.Add(nil, address),
		uintptr(bytes),
		unix.PROT_NONE,
		flags|unix.MAP_FIXED_NOREPLACE,
	)
	if err == nil {
		return unsafe.Slice((*byte)(got), bytes), nil
	}
	more := bytes + granule - pageBytes
	if got, err = unix.MmapPtr(-1, 0, nil, uintptr(more), unix.PROT_NONE, flags); err != nil {
		return nil, err
	}
	all := unsafe.Slice((*byte)(got), more)
	begin := -uint64(uintptr(got)) & (granule - 1)
	for _, rest := range [][]byte{all[:begin], all[begin+bytes:]} {
		if len(rest) > 0 {
			err = errors.Join(err, unmap(rest))
		}
	}
	return all[begin : begin+bytes : begin+bytes], err
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
