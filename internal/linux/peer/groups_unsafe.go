package peer

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readGroups returns the supplementary groups that a socket's peer had when it connected.
func readGroups(fd uintptr) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		bytes := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&bytes)), 0)
		switch {
		case errno == 0:
			return groups[:bytes/4], nil
		case errors.Is(errno, unix.ERANGE) && int(bytes) > len(groups)*4:
			groups = make([]uint32, bytes/4)
		default:
			return nil, errno
		}
	}
}
