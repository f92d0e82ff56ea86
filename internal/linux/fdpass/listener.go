package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/accept"
	"github.com/phos-gpu/phos/internal/linux/peer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Listener accepts connections.
type Listener struct {
	socket   *net.UnixListener
	acceptor *accept.Acceptor
}

// Listen creates a listening socket at a path, for passing on. Every process that can open the path
// can connect.
func Listen(path string) (*os.File, error) {
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	return file, errors.Join(err, listener.Close())
}

// TakeListener takes over a listening socket and closes the file.
func TakeListener(file *os.File) (*Listener, error) {
	defer file.Close()
	// Listen again, so that SO_PEERCRED names this process and not the one that created the socket.
	if err := unix.Listen(int(file.Fd()), unix.SOMAXCONN); err != nil {
		return nil, fmt.Errorf("pass files: listen: %w", err)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("pass files: %w", err)
	}
	socket, ok := listener.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("pass files: not a unix socket"), listener.Close())
	}
	conversations, err := accept.New(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pass files: %w", err), socket.Close())
	}
	return &Listener{socket, conversations}, nil
}

// Accept waits for the next connection. It fails when the socket is closed.
func (l *Listener) Accept() (*Conn, error) {
	socket, _, err := l.acceptor.Next()
	if err != nil {
		return nil, err
	}
	return &Conn{socket}, nil
}

// Close closes the socket.
func (l *Listener) Close() error { return l.socket.Close() }

// Dial connects to the listener at a path.
func Dial(path string, patience time.Duration) (*Conn, error) {
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.Dial("unixpacket", path)
	if err != nil {
		return nil, err
	}
	return &Conn{conn.(*net.UnixConn)}, nil
}

// Peer returns the process at the other end, as the kernel knows it.
func (c *Conn) Peer() (proc.Identity, error) {
	found, err := peer.Of(c.socket)
	if err != nil {
		return proc.Identity{}, err
	}
	return found.Process, nil
}
