package tcpport

import (
	"os"

	"golang.org/x/sys/unix"
)

// Unplug lets a TCP connection end without a packet to its other end when the last process closes
// it, as if a cable had been pulled. Sockets of other kinds, and listeners, stay as they are. It
// needs CAP_NET_ADMIN in the socket's namespace.
func Unplug(socket *os.File) error { return setRepair(socket, unix.TCP_REPAIR_ON) }

// Plug undoes Unplug.
func Plug(socket *os.File) error { return setRepair(socket, unix.TCP_REPAIR_OFF_NO_WP) }

// setRepair sets the repair mode of a connection. A connection in it is freed by its close; see the
// kernel's tcp_close.
func setRepair(socket *os.File, mode int) error {
	fd := int(socket.Fd())
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || protocol != unix.IPPROTO_TCP {
		return err
	}
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 1 {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, mode)
}
