package wire

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is a mapped session file. Its words may change at any time and have any value: the program
// writes them too.
type File struct {
	data []byte
}

// Open maps an existing session file.
func Open(path string) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open session file: %w", err)
	}
	defer file.Close()
	return mapFile(file)
}

// Create creates, allocates and maps a session file of this version, for tests and tools. phosd
// creates its files itself.
func Create(path string) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create session file: %w", err)
	}
	defer file.Close()
	// Allocate now: on a full file system a later access would raise SIGBUS.
	if err := unix.Fallocate(int(file.Fd()), 0, 0, SessionBytes); err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("allocate session file %s: %w", path, err)
	}
	return mapFile(file)
}

func mapFile(file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != SessionBytes {
		return nil, fmt.Errorf(
			"session file %s has %d bytes, want %d: %w",
			file.Name(),
			info.Size(),
			SessionBytes,
			ErrHandshake,
		)
	}
	data, err := unix.Mmap(int(file.Fd()), 0, SessionBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map session file %s: %w", file.Name(), err)
	}
	return &File{data}, nil
}

// Close unmaps the file. Objects that were made from it must not be used afterwards.
func (f *File) Close() error { return unix.Munmap(f.data) }

// Word32 returns a word of the file; offset is a multiple of 4.
func (f *File) Word32(offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&f.data[offset : offset+4][0]))
}

// Word64 returns a word of the file; offset is a multiple of 8.
func (f *File) Word64(offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&f.data[offset : offset+8][0]))
}

// Region returns a part of the mapping.
func (f *File) Region(offset, bytes int) []byte { return f.data[offset : offset+bytes : offset+bytes] }

// mapAt maps a file at exactly this address. It fails with unix.EEXIST if the range is in use.
func mapAt(fd int, address, bytes uint64) ([]byte, error) {
	want := unsafe.Add(nil, address)
	got, err := unix.MmapPtr(fd, 0, want, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	if got != want { // kernels before 4.17 take the address as a hint
		_ = unix.MunmapPtr(got, uintptr(bytes))
		return nil, unix.EEXIST
	}
	return unsafe.Slice((*byte)(got), bytes), nil
}

func unmap(data []byte) error { return unix.MunmapPtr(unsafe.Pointer(&data[0]), uintptr(len(data))) }
