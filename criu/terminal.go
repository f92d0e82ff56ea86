package criu

import "golang.org/x/sys/unix"

// peer opens the slave of a pseudo terminal by its master, without a path.
func peer(master int) (int, error) {
	fd, _, errno := unix.Syscall(
		unix.SYS_IOCTL,
		uintptr(master),
		unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC,
	)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
