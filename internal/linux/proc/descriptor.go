package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Descriptor is an open file of a process.
type Descriptor struct {
	Number int
	// Target is the kernel's name of the file: a path, or "pipe:[12]".
	Target string
	Stat   unix.Stat_t
	// Flags are those of open.
	Flags int
	// Terminal is the number of the pseudo terminal if this is its master, or -1.
	Terminal int
}

// Writable reports whether the file may be written through the descriptor.
func (d *Descriptor) Writable() bool { return d.Flags&unix.O_ACCMODE != unix.O_RDONLY }

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
	d := &Descriptor{Number: number, Terminal: -1}
	var err error
	if d.Target, err = os.Readlink(path); err != nil {
		return nil, err
	}
	if err := unix.Stat(path, &d.Stat); err != nil {
		return nil, err
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, number))
	if err != nil {
		return nil, err
	}
	d.parse(string(info))
	return d, nil
}

func (d *Descriptor) parse(info string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "flags":
			flags, _ := strconv.ParseUint(value, 8, 32)
			d.Flags = int(flags)
		case "tty-index":
			if index, err := strconv.Atoi(value); err == nil {
				d.Terminal = index
			}
		}
	}
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
