package local

import (
	"errors"
	"fmt"
	"net"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/linux/account"
	"github.com/phos-gpu/phos/internal/linux/peer"
	"github.com/phos-gpu/phos/internal/linux/tcpowner"
)

var (
	// ErrNotLocal means that a connection or listener is not of this machine alone.
	ErrNotLocal = errors.New("not local to this machine")
	// ErrNoAccount means that the user of the caller has no account on this machine.
	ErrNoAccount = errors.New("no account of this machine")
)

// Rules are what an administrator has set for local callers.
type Rules struct {
	// AllowRoot means that launches of root may run as root.
	AllowRoot bool
}

// Of returns the caller at the other end of a connection in clear. Call it once, when the
// connection was accepted. The error is ErrNotLocal, ErrNoAccount, or says why the user is unknown.
func (r Rules) Of(conn net.Conn) (identity.Caller, error) {
	uid, err := uidOf(conn)
	if err != nil {
		return identity.Caller{}, fmt.Errorf("local caller: %w", err)
	}
	return r.ofUser(uid, account.KnownName(uid))
}

// uidOf returns the user that has made the peer's socket.
func uidOf(conn net.Conn) (uid uint32, err error) {
	switch conn := conn.(type) {
	case *net.UnixConn:
		credentials, err := peer.Of(conn)
		return credentials.UID, err
	case *net.TCPConn:
		uid, err := tcpowner.Of(conn)
		if errors.Is(err, tcpowner.ErrNotLoopback) {
			err = fmt.Errorf("%w: %w", ErrNotLocal, err)
		}
		return uid, err
	}
	return 0, fmt.Errorf("%w: a connection %T", ErrNotLocal, conn)
}

// ofUser returns the caller of a user with this name; "" is no name.
func (r Rules) ofUser(uid uint32, name string) (identity.Caller, error) {
	if uid == account.Overflow() {
		return identity.Caller{}, fmt.Errorf("local caller: user %d stands for unknown users: %w", uid, ErrNoAccount)
	}
	if name == "" {
		return identity.Caller{}, fmt.Errorf("local caller: user %d has %w", uid, ErrNoAccount)
	}
	if err := identity.CheckAccountName(name); err != nil {
		return identity.Caller{}, fmt.Errorf("local caller: user %d: %w", uid, err)
	}
	c := identity.Caller{Kind: identity.Local, Name: name, Account: name, Role: identity.RoleUser}
	if uid == 0 {
		c.Role, c.AllowRoot = identity.RoleAdmin, r.AllowRoot
	}
	return c, nil
}

// CheckListener returns ErrNotLocal if a listener may not serve in clear: all others need TLS.
func CheckListener(listener net.Listener) error {
	switch address := listener.Addr().(type) {
	case *net.UnixAddr:
		return nil
	case *net.TCPAddr:
		if address.IP.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("serve %s without TLS: %w; listen on 127.0.0.1 or ::1, or with TLS", listener.Addr(), ErrNotLocal)
}
