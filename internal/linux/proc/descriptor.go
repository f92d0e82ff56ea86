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
	// Target is what the kernel calls it: a path, or "pipe:[12]".
	Target string
	Stat   unix.Stat_t
	// Flags are those of open.
	Flags int
	// Terminal is the number of a pseudo terminal whose master this is, else -1.
	Terminal int
}

// Writable says that the file may be written through the descriptor.
func (d *Descriptor) Writable() bool { return d.Flags&unix.O_ACCMODE != unix.O_RDONLY }

// Format is the type of the file.
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

// Borrow makes a descriptor of another process one of this, to ask what only its owner can: the
// program does not notice.
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
