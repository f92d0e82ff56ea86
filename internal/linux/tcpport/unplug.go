package tcpport

import (
	"os"

	"golang.org/x/sys/unix"
)

// Unplug lets a TCP connection end without a packet to its other end when the last process closes
// it, as if a cable had been pulled. Sockets of other kinds, and listeners, stay as they are. It
// needs CAP_NET_ADMIN in the socket's namespace.
func Unplug(socket *os.File) error {
	fd := int(socket.Fd())
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || protocol != unix.IPPROTO_TCP {
		return err
	}
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 1 {
		return err
	}
	// A connection in repair mode is freed by its close; see the kernel's tcp_close.
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1)
}
