package localapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/phos-gpu/phos/internal/linux/accept"
	"github.com/phos-gpu/phos/internal/linux/peer"
)

// maxConnections is how many connections one user may have at once.
const maxConnections = 64

// listener accepts connections whose users are known, and not too many of each.
type listener struct {
	socket   *net.UnixListener
	acceptor *accept.Acceptor
	log      *slog.Logger

	mu   sync.Mutex
	open map[uint32]int // by user
}

// connection is that of a user.
type connection struct {
	net.Conn
	uid   uint32
	leave func()
}

// listen opens the socket in place of one that an earlier agent has left.
func listen(path string, log *slog.Logger) (*listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("socket for launches: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket for launches: %w", err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket for launches: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // the kernel names the caller
		return nil, errors.Join(fmt.Errorf("socket for launches: %w", err), socket.Close())
	}
	acceptor, err := accept.New(socket, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket for launches: %w", err), socket.Close())
	}
	return &listener{socket: socket, acceptor: acceptor, log: log, open: map[uint32]int{}}, nil
}

// Accept implements net.Listener. A connection beyond the limits is closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, full, err := l.acceptor.Next()
		if err != nil {
			return nil, err
		}
		from, err := peer.Of(conn)
		if full != nil || err != nil || !l.enter(from.UID) {
			_ = conn.Close() // nothing was sent
			continue
		}
		return &connection{conn, from.UID, sync.OnceFunc(func() { l.leave(from.UID) })}, nil
	}
}

// enter counts a connection, and reports whether the user may have it.
func (l *listener) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid] == maxConnections {
		return false
	}
	l.open[uid]++
	return true
}

// leave counts the end of a connection.
func (l *listener) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

// Close implements net.Listener.
func (l *listener) Close() error { return l.socket.Close() }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.socket.Addr() }

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
