package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Info is what the kernel knows of a descriptor without a request to the file system, which may
// hang.
type Info struct {
	// Flags are those of open.
	Flags int
	// Terminal is the number of the pseudo terminal if this is its master, or -1.
	Terminal int
	// Mount is the ID of the mount through which the file is open. Inode is the kernel's number of
	// the file; 0 before Linux 5.14.
	Mount, Inode uint64
	// Lock is the strongest lock that is held through the descriptor: "read", "write" or empty.
	Lock string
}

// Writable reports whether the file may be written through the descriptor.
func (i *Info) Writable() bool {
	return i.Flags&unix.O_PATH == 0 && i.Flags&unix.O_ACCMODE != unix.O_RDONLY
}

// ReadInfo reads the information about a descriptor of a process.
func ReadInfo(pid, number int) (Info, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, number))
	if err != nil {
		return Info{Terminal: -1}, err
	}
	return parseInfo(string(text)), nil
}

// parseInfo parses the content of a file in fdinfo: proc_pid_fdinfo(5).
func parseInfo(text string) Info {
	i := Info{Terminal: -1}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "flags":
			flags, _ := strconv.ParseUint(value, 8, 32)
			i.Flags = int(flags)
		case "tty-index":
			if index, err := strconv.Atoi(value); err == nil {
				i.Terminal = index
			}
		case "mnt_id":
			i.Mount, _ = strconv.ParseUint(value, 10, 64)
		case "ino":
			i.Inode, _ = strconv.ParseUint(value, 10, 64)
		case "lock":
			i.Lock = StrongerLock(i.Lock, parseLock(value))
		}
	}
	return i
}

// parseLock returns the strength of a lock like "1: POSIX  ADVISORY  WRITE 7 08:01:1234 0 EOF".
// Leases are not locks.
func parseLock(text string) string {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return ""
	}
	switch fields[1] {
	case "POSIX", "FLOCK", "OFDLCK":
		return strings.ToLower(fields[3])
	}
	return ""
}

// StrongerLock returns the stronger of two locks.
func StrongerLock(a, b string) string {
	if a == "write" || b == "" {
		return a
	}
	return b
}
