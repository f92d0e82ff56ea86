package wire

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrTaken means that something else is mapped where the arena should go.
var ErrTaken = errors.New("address range is taken")

// Where libphos tries to put the arena: candidate n lies ArenaStride times n above ArenaFirst.
const (
	ArenaFirst  = 0x6000_0000_0000
	ArenaStride = 1 << 40
)

// Arena is the pinned memory that a program and its worker share at one address: a sparse file in
// which pages are allocated before anybody may touch them.
type Arena struct {
	file    *os.File
	address uint64
	data    []byte
}

// CreateArena makes a sparse arena file. phosd makes its own; this is for tests and tools.
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

// Place maps the whole file at an address, ErrTaken where that is not free.
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

// Address is where the arena lies in both processes, 0 before Place.
func (a *Arena) Address() uint64 { return a.address }

// Bytes is the arena itself. Only reserved pages may be touched: on a full file system another one
// is a SIGBUS.
func (a *Arena) Bytes() []byte { return a.data }

// Reserve allocates pages; abi.OutOfMemory when the file system is full.
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

// Punch gives pages back; they read as zero afterwards.
func (a *Arena) Punch(offset, bytes uint64) error {
	err := unix.Fallocate(
		int(a.file.Fd()),
		unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
		int64(offset),
		int64(bytes),
	)
	if err != nil {
		return fmt.Errorf("give back %d bytes of pinned memory: %w: %w", bytes, err, abi.OperatingSystem)
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
