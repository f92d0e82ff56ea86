package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Descriptor is an open file of a process.
type Descriptor struct {
	Number int
	// Target is the kernel's name of the file: a path, or "pipe:[12]".
	Target string
	Stat   unix.Stat_t
	Info
}

// Format returns the type of the file.
func (d *Descriptor) Format() uint32 { return d.Stat.Mode & unix.S_IFMT }

// Descriptors lists the open files of a process.
func Descriptors(pid int) ([]Descriptor, error) {
	directory := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	found := make([]Descriptor, 0, len(entries))
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		descriptor, err := readDescriptor(pid, number)
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("pid %d descriptor %d: %w", pid, number, err)
		}
		found = append(found, *descriptor)
	}
	return found, nil
}

func readDescriptor(pid, number int) (*Descriptor, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, number)
	d := &Descriptor{Number: number}
	var err error
	if d.Target, err = os.Readlink(path); err != nil {
		return nil, err
	}
	if err := unix.Stat(path, &d.Stat); err != nil {
		return nil, err
	}
	d.Info, err = ReadInfo(pid, number)
	return d, err
}

// Borrow duplicates a descriptor of another process, for queries that only its owner can make. The
// other process cannot observe it.
func Borrow(pid, number int) (*os.File, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("pid %d descriptor %d", pid, number)), nil
}

// Reopen opens the file of a process's descriptor once more, with other flags, as its name would be
// opened. It does not wait for the other end of a pipe.
func Reopen(pid, number, flags int) (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, number)
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("pid %d descriptor %d: %w", pid, number, err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}
