// Package peer tells which process is at the other end of a unix socket. Tested by daemon/api and
// daemon/worker.
package peer

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Credentials are those that a process had when it connected or listened (SO_PEERCRED,
// SO_PEERGROUPS).
type Credentials struct {
	UID, GID uint32
	PID      int32
	// Groups are the supplementary groups.
	Groups []uint32
}

// Of returns the credentials of a unix socket's peer.
func Of(conn syscall.Conn) (Credentials, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Credentials{}, fmt.Errorf("peer credentials: %w", err)
	}
	var found Credentials
	var failure error
	if err := raw.Control(func(fd uintptr) { found, failure = read(fd) }); err != nil {
		return Credentials{}, fmt.Errorf("peer credentials: %w", err)
	}
	if failure != nil {
		return Credentials{}, fmt.Errorf("peer credentials: %w", failure)
	}
	return found, nil
}

// read asks the kernel for the credentials of a socket's peer.
func read(fd uintptr) (Credentials, error) {
	cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Credentials{}, err
	}
	groups, err := readGroups(fd)
	return Credentials{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid, Groups: groups}, err
}
