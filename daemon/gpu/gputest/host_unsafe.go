package gputest

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostMemory is memory that lies at an address in this process and can be shared with others: a
// mapped file, as the arena of a session is, and as that in a tmpfs, because newer kernels pin
// files of disks for no device that writes.
func (b *bench) hostMemory(address uintptr, bytes int) []byte {
	b.t.Helper()
	file, err := os.CreateTemp("/dev/shm", "phos-gputest-")
	b.must(err)
	defer file.Close()
	b.t.Cleanup(func() { _ = os.Remove(file.Name()) })
	b.must(file.Truncate(int64(bytes)))
	at, err := unix.MmapPtr(int(file.Fd()), 0, unsafe.Add(nil, address), uintptr(bytes),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE)
	b.must(err)
	b.t.Cleanup(func() { _ = unix.MunmapPtr(at, uintptr(bytes)) })
	return unsafe.Slice((*byte)(at), bytes)
}
