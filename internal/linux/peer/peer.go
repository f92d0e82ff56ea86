// Package peer tells which process is at the other end of a unix socket. A pid alone does not: the
// process that connected may have ended, and its pid may belong to another process now.
package peer

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Credentials are those that a process had when it connected (SO_PEERCRED, SO_PEERGROUPS).
type Credentials struct {
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
	// Process is the process that connected. Its PID is 0 if it is in a pid namespace that this
	// process cannot see.
	Process proc.Identity
}

// Of returns the credentials of a unix socket's peer. It returns proc.ErrGone if the process that
// connected has ended, even if another process has its socket or its pid now. If it lacks a file
// descriptor (proc.Unknown), Process has only the pid, which may be another process's by now.
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
		return found, fmt.Errorf("peer credentials: %w", failure)
	}
	return found, nil
}

// read asks the kernel for the credentials of a socket's peer.
func read(fd uintptr) (Credentials, error) {
	cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Credentials{}, err
	}
	found := Credentials{UID: cred.Uid, GID: cred.Gid}
	if found.Groups, err = readGroups(fd); err != nil {
		return Credentials{}, err
	}
	if cred.Pid > 0 {
		if found.Process, err = identify(int(fd), int(cred.Pid), cred.Uid); proc.Unknown(err) {
			found.Process.PID = int(cred.Pid)
		}
	}
	return found, err
}

// identify returns the process that connected, which had this pid and user then.
func identify(fd, pid int, uid uint32) (proc.Identity, error) {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return identifyByUser(pid, uid)
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // the process has been reaped
		return proc.Identity{}, fmt.Errorf("%w: pid %d", proc.ErrGone, pid)
	case err != nil:
		return proc.Identity{}, err
	}
	id, err := proc.Of(pid)
	if err != nil {
		_ = unix.Close(pidfd)
		return proc.Identity{}, err
	}
	held, err := proc.Take(id, os.NewFile(uintptr(pidfd), "pidfd"))
	if err != nil {
		return proc.Identity{}, err
	}
	defer held.Close()
	// While its process exists a pid is not given to another one, so id is of this process.
	if held.Ended() {
		return proc.Identity{}, fmt.Errorf("%w: pid %d", proc.ErrGone, pid)
	}
	return id, nil
}

// identifyByUser is for kernels before 6.5, which do not say whether the process that connected
// still exists. Its pid may belong to another process of the same user by now, but to no other
// user's.
func identifyByUser(pid int, uid uint32) (proc.Identity, error) {
	id, err := proc.Of(pid)
	if err != nil {
		return proc.Identity{}, err
	}
	same, err := id.ActsOnlyAs(uid)
	if err != nil {
		return proc.Identity{}, err
	}
	if !same {
		return proc.Identity{}, fmt.Errorf("%w: pid %d belongs to another user now", proc.ErrGone, pid)
	}
	return id, id.Check()
}
