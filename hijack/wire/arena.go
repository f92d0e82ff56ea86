package wire

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrTaken is returned when the arena's address range is in use.
var ErrTaken = errors.New("address range is taken")

// Candidate addresses of the arena: candidate n is ArenaFirst + n*ArenaStride.
const (
	ArenaFirst  = 0x6000_0000_0000
	ArenaStride = 1 << 40
)

// Arena is the pinned memory that a program and its worker share at the same address: a sparse file
// whose pages are allocated before they are used.
type Arena struct {
	file    *os.File
	address uint64
	data    []byte
}

// CreateArena creates a sparse arena file, for tests and tools. phosd creates its files itself.
func CreateArena(path string, bytes uint64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("create arena: %w", err)
	}
	return errors.Join(file.Truncate(int64(bytes)), file.Close())
}

// OpenArena opens an arena file without mapping it.
func OpenArena(path string) (*Arena, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open arena: %w", err)
	}
	return &Arena{file: file}, nil
}

// Place maps the whole file at an address. It returns ErrTaken if the range is in use.
func (a *Arena) Place(address uint64) error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	data, err := mapAt(int(a.file.Fd()), address, uint64(info.Size()))
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("map arena of %d bytes at %#x: %w", info.Size(), address, ErrTaken)
	}
	if err != nil {
		return fmt.Errorf("map arena of %d bytes at %#x: %w", info.Size(), address, err)
	}
	a.address, a.data = address, data
	return nil
}

// Address returns the arena's address in both processes, 0 before Place.
func (a *Arena) Address() uint64 { return a.address }

// Bytes returns the arena's memory. Access only reserved pages: on a full file system any other
// page raises SIGBUS.
func (a *Arena) Bytes() []byte { return a.data }

// Reserve allocates pages. It returns abi.OutOfMemory if the file system is full.
func (a *Arena) Reserve(offset, bytes uint64) error {
	err := unix.Fallocate(int(a.file.Fd()), 0, int64(offset), int64(bytes))
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("reserve %d bytes of pinned memory: %w: %w", bytes, err, abi.OutOfMemory)
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes of pinned memory: %w: %w", bytes, err, abi.OperatingSystem)
	}
	return nil
}

// Punch frees pages; afterwards they read as zeros.
func (a *Arena) Punch(offset, bytes uint64) error {
	err := unix.Fallocate(
		int(a.file.Fd()),
		unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
		int64(offset),
		int64(bytes),
	)
	if err != nil {
		return fmt.Errorf("free %d bytes of pinned memory: %w: %w", bytes, err, abi.OperatingSystem)
	}
	return nil
}

// Close unmaps the arena and closes its file.
func (a *Arena) Close() error {
	var err error
	if a.data != nil {
		err = unmap(a.data)
		a.data = nil
	}
	return errors.Join(err, a.file.Close())
}
