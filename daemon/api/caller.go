package api

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/phos-gpu/phos/internal/linux/peer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Caller is the process that makes a request, as the kernel identified it when it connected. What
// a request says of its caller is not believed.
type Caller struct {
	UID, GID uint32
	// Groups are the supplementary groups that the caller had when it connected.
	Groups []uint32
	// Process is the process that connected. Its PID is 0 if phosd cannot see it. The process may
	// have ended since; each use of its pid checks that.
	Process proc.Identity
	// unidentified is why Process has no start time: phosd lacks file descriptors. Such a caller can
	// do nothing for which its process matters.
	unidentified error
}

// AuthType implements credentials.AuthInfo: a Caller is the AuthInfo of its connection.
func (Caller) AuthType() string { return "unix peer" }

// Root reports whether the caller is root, which may access everything.
func (a Caller) Root() bool { return a.UID == 0 }

// CanAccess reports whether the caller may see and control what belongs to a user.
func (a Caller) CanAccess(uid uint32) bool { return a.Root() || a.UID == uid }

// RequireRoot returns an error unless the caller is root. what completes "only root may".
func (a Caller) RequireRoot(what string) error {
	if a.Root() {
		return nil
	}
	return fmt.Errorf("%w: only root may %s", ErrNotPermitted, what)
}

// CallerOf returns the caller of a request. It fails for a connection without credentials, and for
// a caller that has ended: another process may have its connection and its pid.
func CallerOf(ctx context.Context) (Caller, error) {
	from, ok := grpcpeer.FromContext(ctx)
	if ok {
		switch info := from.AuthInfo.(type) {
		case Caller:
			return info, info.checkAlive()
		case refused:
			return Caller{}, info.reason
		}
	}
	return Caller{}, fmt.Errorf("%w: the caller is unknown", ErrNotPermitted)
}

// checkAlive returns an error if the caller's process is known to have ended, also if it is a
// zombie.
func (a Caller) checkAlive() error {
	if a.Process.PID == 0 || a.unidentified != nil { // see CheckVisible and Identified
		return nil
	}
	err := a.Process.Check()
	if _, zombie := a.Process.Zombie(); zombie && err == nil {
		err = fmt.Errorf("%w: pid %d", proc.ErrGone, a.Process.PID)
	}
	if err != nil {
		return fmt.Errorf("%w: the caller: %w", ErrNotPermitted, err)
	}
	return nil
}

// PeerCredentials authenticates connections by SO_PEERCRED and exchanges no bytes.
type PeerCredentials struct{}

// ServerHandshake reads the peer's credentials. It fails for anything but a unix socket.
func (PeerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	caller, err := PeerOf(conn)
	if counted, ok := conn.(*CountedConn); ok && counted.refused != nil {
		return conn, refused{counted.refused}, err
	}
	return conn, caller, err
}

// ClientHandshake does nothing: a client trusts the socket path.
func (PeerCredentials) ClientHandshake(
	_ context.Context,
	_ string,
	conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return conn, Caller{}, nil
}

// Info returns the name of the protocol.
func (PeerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix peer"}
}

// Clone returns the credentials, which have no state.
func (PeerCredentials) Clone() credentials.TransportCredentials { return PeerCredentials{} }

// OverrideServerName is part of the gRPC interface and means nothing here.
func (PeerCredentials) OverrideServerName(string) error { return nil }

// Identified returns an error if phosd could not identify the caller's process, for lack of file
// descriptors.
func (a Caller) Identified() error {
	if a.unidentified != nil {
		return fmt.Errorf("%w: %w", ErrExhausted, a.unidentified)
	}
	return nil
}

// SameProcess reports whether two callers are the same process of the same user, as far as both are
// identified.
func (a Caller) SameProcess(other Caller) bool {
	if a.unidentified != nil || other.unidentified != nil {
		return a.UID == other.UID && a.Process.PID == other.Process.PID
	}
	return a.UID == other.UID && a.Process == other.Process
}

// PeerOf returns the credentials of a unix socket's peer. It succeeds even if phosd lacks file
// descriptors; see Identified.
func PeerOf(conn net.Conn) (Caller, error) {
	if counted, ok := conn.(*CountedConn); ok {
		conn = counted.UnixConn
	}
	stream, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return Caller{}, fmt.Errorf("%w: not a unix socket", ErrNotPermitted)
	}
	found, err := peer.Of(stream)
	if err != nil && !proc.Unknown(err) {
		return Caller{}, err
	}
	return Caller{
		UID: found.UID, GID: found.GID, Groups: found.Groups, Process: found.Process, unidentified: err,
	}, nil
}
