package gputest

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostMemory maps shared memory at an address in this process. Like the arena of a session it is a
// file mapping on tmpfs, because newer kernels cannot pin files on disk for devices that write.
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
