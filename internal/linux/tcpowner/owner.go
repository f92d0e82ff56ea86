package tcpowner

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/account"
)

var (
	// ErrNotLoopback means that the connection is not one over loopback.
	ErrNotLoopback = errors.New("not a loopback connection")
	// ErrUnknown means that the peer's socket was not found, is ambiguous, or is closed already.
	ErrUnknown = errors.New("the user at the other end is unknown")
)

// attempts is how often the tables are read. A socket can be missed while others are opened and
// closed, because the kernel does not list all of them at one instant.
const attempts = 3

// Of returns the user that created the socket at the other end of a connection, which must still be
// open. The error is ErrNotLoopback, ErrUnknown, or that of a system call.
func Of(conn *net.TCPConn) (uid uint32, err error) {
	own, err := pairOf(conn)
	if err != nil {
		return 0, fmt.Errorf("owner of a connection: %w", err)
	}
	for range attempts {
		if uid, err = look(conn, own); !errors.Is(err, errMissed) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("owner of the connection from %v: %w", own.remote, err)
	}
	return uid, nil
}

// pair is the two addresses of a socket.
type pair struct{ local, remote netip.AddrPort }

// pairOf returns the addresses of a connection, which must be loopback's.
func pairOf(conn *net.TCPConn) (pair, error) {
	local, ok1 := conn.LocalAddr().(*net.TCPAddr)
	remote, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return pair{}, fmt.Errorf("%w: it is closed", ErrUnknown)
	}
	own := pair{plain(local.AddrPort()), plain(remote.AddrPort())}
	if !own.local.Addr().IsLoopback() || !own.remote.Addr().IsLoopback() {
		return pair{}, fmt.Errorf("%w: from %v to %v", ErrNotLoopback, own.remote, own.local)
	}
	return own, nil
}

// plain makes an address of version 4 out of one that is mapped into version 6: one end may have
// the one form, and the other end the other.
func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// errMissed is the ErrUnknown after which it is worth reading the tables again.
var errMissed = fmt.Errorf("%w: its socket is not listed", ErrUnknown)

// look reads the tables once.
func look(conn *net.TCPConn, own pair) (uid uint32, err error) {
	inode, err := inodeOf(conn)
	if err != nil {
		return 0, err
	}
	found, err := list(own)
	if err != nil {
		return 0, err
	}
	// This comes after the list: see the package comment.
	if err := checkEstablished(conn); err != nil {
		return 0, err
	}
	if uid, err = found.peer(own, inode); err != nil {
		return 0, err
	}
	if uid == account.Overflow() {
		return 0, fmt.Errorf("%w: user %d stands for all that this namespace does not know", ErrUnknown, uid)
	}
	return uid, nil
}

// inodeOf returns the inode of a connection's own socket.
func inodeOf(conn *net.TCPConn) (inode uint64, err error) {
	var stat unix.Stat_t
	if err := control(conn, func(fd int) error { return unix.Fstat(fd, &stat) }); err != nil {
		return 0, fmt.Errorf("inode of the socket: %w", err)
	}
	return stat.Ino, nil
}

// checkEstablished returns ErrUnknown if one side has closed the connection.
func checkEstablished(conn *net.TCPConn) error {
	var info *unix.TCPInfo
	err := control(conn, func(fd int) (err error) {
		info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	})
	if err != nil {
		return fmt.Errorf("state of the socket: %w", err)
	}
	if info.State != established {
		return fmt.Errorf("%w: the connection is closed", ErrUnknown)
	}
	return nil
}

// control runs a system call on a connection's descriptor.
func control(conn *net.TCPConn, call func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = call(int(fd)) }); err != nil {
		return err
	}
	return failure
}
