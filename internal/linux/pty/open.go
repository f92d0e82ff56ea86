// Package pty opens pseudo terminals. Tested by cli/launch and criu.
package pty

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a pseudo terminal with a window size. Both ends are in blocking mode, because the
// program will see the slave's flags. The slave is opened without a path, so that it is right in
// any mount namespace.
func Open(rows, columns uint16) (slave, master *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a pseudo terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "pseudo terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("unlock a pseudo terminal: %w", err), master.Close())
	}
	opened, _, errno := unix.Syscall(
		unix.SYS_IOCTL,
		uintptr(fd),
		unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC,
	)
	if errno != 0 {
		return nil, nil, errors.Join(fmt.Errorf("open the slave of a pseudo terminal: %w", errno), master.Close())
	}
	// Not fatal: a terminal works without a size.
	_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	return os.NewFile(opened, "pseudo terminal (slave)"), master, nil
}
