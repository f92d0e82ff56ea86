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
)

// Listening accepts conversations.
type Listening struct {
	socket        *net.UnixListener
	conversations *accept.Intake
}

// Listen makes a listening socket at a path, for passing on. Whoever reaches the path may speak
// with its owner.
func Listen(path string) (*os.File, error) {
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	return file, errors.Join(err, listener.Close())
}

// Listener takes over a listening socket.
func Listener(file *os.File) (*Listening, error) {
	defer file.Close()
	// Whoever connects finds this process at the other end, and not the one that made the socket.
	if err := unix.Listen(int(file.Fd()), unix.SOMAXCONN); err != nil {
		return nil, fmt.Errorf("parcel: listen: %w", err)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("parcel: %w", err)
	}
	socket, ok := listener.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("parcel: not a unix socket"), listener.Close())
	}
	conversations, err := accept.New(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("parcel: %w", err), socket.Close())
	}
	return &Listening{socket, conversations}, nil
}

// Accept waits for the next conversation. It fails when the socket is closed.
func (l *Listening) Accept() (*Conn, error) {
	socket, _, err := l.conversations.Next()
	if err != nil {
		return nil, err
	}
	return &Conn{socket}, nil
}

// Close ends it.
func (l *Listening) Close() error { return l.socket.Close() }

// Dial begins a conversation with whoever listens at a path.
func Dial(path string, patience time.Duration) (*Conn, error) {
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.Dial("unixpacket", path)
	if err != nil {
		return nil, err
	}
	return &Conn{conn.(*net.UnixConn)}, nil
}

// Peer is the pid of the process at the other end, as the kernel knows it.
func (c *Conn) Peer() (pid int, err error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	failure := raw.Control(func(fd uintptr) {
		var who *unix.Ucred
		if who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(who.Pid)
		}
	})
	return pid, errors.Join(failure, err)
}
