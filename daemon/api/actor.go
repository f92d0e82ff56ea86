package api

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Actor is the process that makes a request, as the kernel identifies it (SO_PEERCRED).
type Actor struct {
	UID, GID uint32
	PID      int32
	// Groups are the supplementary groups that the caller had when it connected.
	Groups []uint32
}

// AuthType implements credentials.AuthInfo: an Actor is the AuthInfo of its connection.
func (Actor) AuthType() string { return "unix peer" }

// Root reports whether the actor is root, which may access everything.
func (a Actor) Root() bool { return a.UID == 0 }

// CanAccess reports whether the actor may see and control what belongs to a user.
func (a Actor) CanAccess(uid uint32) bool { return a.Root() || a.UID == uid }

// RequireRoot returns an error unless the actor is root. what completes "only root may".
func (a Actor) RequireRoot(what string) error {
	if a.Root() {
		return nil
	}
	return fmt.Errorf("%w: only root may %s", ErrNotPermitted, what)
}

// ActorOf returns the caller of a request. It fails for a connection without credentials.
func ActorOf(ctx context.Context) (Actor, error) {
	from, ok := peer.FromContext(ctx)
	if ok {
		switch info := from.AuthInfo.(type) {
		case Actor:
			return info, nil
		case refused:
			return Actor{}, info.reason
		}
	}
	return Actor{}, fmt.Errorf("%w: the caller is unknown", ErrNotPermitted)
}

// PeerCredentials authenticates connections by SO_PEERCRED and exchanges no bytes.
type PeerCredentials struct{}

// ServerHandshake reads the peer's credentials. It fails for anything but a unix socket.
func (PeerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	actor, err := PeerOf(conn)
	if counted, ok := conn.(*CountedConn); ok && counted.refused != nil {
		return conn, refused{counted.refused}, err
	}
	return conn, actor, err
}

// ClientHandshake does nothing: a client trusts the socket path.
func (PeerCredentials) ClientHandshake(
	_ context.Context,
	_ string,
	conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return conn, Actor{}, nil
}

// Info returns the name of the protocol.
func (PeerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix peer"}
}

// Clone returns the credentials, which have no state.
func (PeerCredentials) Clone() credentials.TransportCredentials { return PeerCredentials{} }

// OverrideServerName is part of the gRPC interface and means nothing here.
func (PeerCredentials) OverrideServerName(string) error { return nil }

// PeerOf returns the credentials of a unix socket's peer.
func PeerOf(conn net.Conn) (Actor, error) {
	if counted, ok := conn.(*CountedConn); ok {
		conn = counted.UnixConn
	}
	stream, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return Actor{}, fmt.Errorf("%w: not a unix socket", ErrNotPermitted)
	}
	raw, err := stream.SyscallConn()
	if err != nil {
		return Actor{}, err
	}
	var cred *unix.Ucred
	var groups []uint32
	var failure error
	if err := raw.Control(func(fd uintptr) {
		if cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failure == nil {
			groups, failure = peerGroups(fd)
		}
	}); err != nil {
		return Actor{}, err
	}
	if failure != nil {
		return Actor{}, fmt.Errorf("peer credentials: %w", failure)
	}
	return Actor{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid, Groups: groups}, nil
}
