// Package inherit limits what a process passes on to its children without wanting to: files that it
// has inherited itself, and signals that its parent has ignored.
package inherit

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseFiles closes files that this process has inherited, but for the standard ones and those to
// keep, which are closed on exec from now on. It touches nothing that this process has opened: that
// is closed on exec already. So it is called before anything is opened in another way.
func CloseFiles(keep ...int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch {
		case err != nil || flags&unix.FD_CLOEXEC != 0:
		case slices.Contains(keep, fd):
			unix.CloseOnExec(fd)
		default:
			_ = unix.Close(fd)
		}
	}
	return nil
}
