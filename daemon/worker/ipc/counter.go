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

// Counter is an event that several processes share: how many recordings were requested, and up to
// which one they were reached. It lives in a file that all of them have mapped.
type Counter struct {
	file *os.File
	data []byte
}

// NewCounter returns a counter with count recordings, all reached.
func NewCounter(count uint64) (*Counter, error) {
	fd, err := unix.MemfdCreate("phos-event", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create shared event: %w: %w", err, abi.OutOfMemory)
	}
	file := os.NewFile(uintptr(fd), "shared event")
	if err := unix.Fallocate(fd, 0, 0, counterBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("create shared event: %w: %w", err, abi.OutOfMemory), file.Close())
	}
	// The seal keeps other processes from truncating the file, which would make every access to the
	// mapping fault.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(fmt.Errorf("create shared event: %w: %w", err, abi.OperatingSystem), file.Close())
	}
	c, err := OpenCounter(file)
	if err == nil {
		c.asked().Store(count)
		c.reached().Store(count)
	}
	return c, err
}

// OpenCounter maps a counter's file. It takes ownership of the file.
func OpenCounter(file *os.File) (*Counter, error) {
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	info, failed := file.Stat()
	if err != nil || failed != nil || seals&unix.F_SEAL_SHRINK == 0 || info.Size() != counterBytes {
		err := fmt.Errorf("open shared event: file is not a shared event: %w", abi.InvalidHandle)
		return nil, errors.Join(err, file.Close())
	}
	data, err := unix.Mmap(int(file.Fd()), 0, counterBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open shared event: %w: %w", err, abi.MapFailed), file.Close())
	}
	return &Counter{file, data}, nil
}

// Ask counts a requested recording and returns its number.
func (c *Counter) Ask() uint64 { return c.asked().Add(1) }

// Asked returns the number of the latest requested recording.
func (c *Counter) Asked() uint64 { return c.asked().Load() }

// Reach marks a recording, and all earlier ones, as reached.
func (c *Counter) Reach(number uint64) {
	for {
		old := c.reached().Load()
		if old >= number || c.reached().CompareAndSwap(old, number) {
			return
		}
	}
}

// Reached reports whether a recording or a later one was reached.
func (c *Counter) Reached(number uint64) bool { return c.reached().Load() >= number }

// File returns a new file descriptor of the counter's file.
func (c *Counter) File() (*os.File, error) {
	fd, err := unix.FcntlInt(c.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("share event: %w: %w", err, abi.OperatingSystem)
	}
	return os.NewFile(uintptr(fd), "shared event"), nil
}

// Close unmaps and closes the file. The counter must not be used afterwards.
func (c *Counter) Close() error { return errors.Join(unix.Munmap(c.data), c.file.Close()) }
