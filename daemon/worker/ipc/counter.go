package ipc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
)

// counterBytes is the size of a counter's file: one page.
const counterBytes = 4096

// Counter is an event that several processes have: how often somebody was to record it, and how
// many of these recordings were reached. It lies in a file that all have mapped.
type Counter struct {
	file *os.File
	data []byte
}

// NewCounter makes one that stands at a count, reached.
func NewCounter(count uint64) (*Counter, error) {
	fd, err := unix.MemfdCreate("phos-event", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make shared event: %w: %w", err, abi.OutOfMemory)
	}
	file := os.NewFile(uintptr(fd), "shared event")
	if err := unix.Fallocate(fd, 0, 0, counterBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("make shared event: %w: %w", err, abi.OutOfMemory), file.Close())
	}
	// Nobody can take the page from under those who have mapped it.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(fmt.Errorf("make shared event: %w: %w", err, abi.OperatingSystem), file.Close())
	}
	c, err := OpenCounter(file)
	if err == nil {
		c.asked().Store(count)
		c.reached().Store(count)
	}
	return c, err
}

// OpenCounter maps a counter's file, and keeps it.
func OpenCounter(file *os.File) (*Counter, error) {
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	info, failed := file.Stat()
	if err != nil || failed != nil || seals&unix.F_SEAL_SHRINK == 0 || info.Size() != counterBytes {
		return nil, errors.Join(fmt.Errorf("open shared event: it is none: %w", abi.InvalidHandle), file.Close())
	}
	data, err := unix.Mmap(int(file.Fd()), 0, counterBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open shared event: %w: %w", err, abi.MapFailed), file.Close())
	}
	return &Counter{file, data}, nil
}

// Ask counts a recording that is to come, and returns its number.
func (c *Counter) Ask() uint64 { return c.asked().Add(1) }

// Asked is the number of the latest recording.
func (c *Counter) Asked() uint64 { return c.asked().Load() }

// Reach says that a recording was reached.
func (c *Counter) Reach(number uint64) {
	for {
		old := c.reached().Load()
		if old >= number || c.reached().CompareAndSwap(old, number) {
			return
		}
	}
}

// Reached reports whether a recording, or a later one, was reached.
func (c *Counter) Reached(number uint64) bool { return c.reached().Load() >= number }

// File is another descriptor of the counter's file.
func (c *Counter) File() (*os.File, error) {
	fd, err := unix.FcntlInt(c.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("share event: %w: %w", err, abi.OperatingSystem)
	}
	return os.NewFile(uintptr(fd), "shared event"), nil
}

// Close gives up the file. Nobody here may use the counter any more.
func (c *Counter) Close() error { return errors.Join(unix.Munmap(c.data), c.file.Close()) }
