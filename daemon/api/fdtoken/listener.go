package fdtoken

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/accept"
)

// peekTime is how long a new connection may send nothing.
const peekTime = 5 * time.Second

// Listener is a net.Listener for gRPC. It filters out connections that hand off files, and serves
// them with a Store.
type Listener struct {
	socket   *net.UnixListener
	acceptor *accept.Acceptor
	store    *Store
	log      *slog.Logger
	others   chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// NewListener starts to accept connections.
func NewListener(socket *net.UnixListener, store *Store, log *slog.Logger) (*Listener, error) {
	connections, err := accept.New(socket, log)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		socket:   socket,
		acceptor: connections,
		store:    store,
		log:      log,
		others:   make(chan net.Conn),
		closed:   make(chan struct{}),
	}
	go l.accept()
	return l, nil
}

// accept dispatches connections until the socket is closed.
func (l *Listener) accept() {
	defer l.Close()
	for {
		conn, full, err := l.acceptor.Next()
		if err != nil {
			return
		}
		go l.dispatch(conn, full)
	}
}

// dispatch serves a connection that begins with Magic, and passes on all others.
func (l *Listener) dispatch(conn *net.UnixConn, full error) {
	first, err := Peek(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case first == Magic:
		if err := l.store.Accept(conn); err != nil {
			l.log.Warn("file handoff failed", "error", err)
		}
	default:
		l.pass(conn, full)
	}
}

// pass hands a gRPC connection to Accept. If full is set, the connection holds the last free file
// descriptor, so its requests are refused.
func (l *Listener) pass(accepted *net.UnixConn, full error) {
	conn := &api.CountedConn{UnixConn: accepted, Closed: func() {}}
	if full != nil {
		conn.Refuse(fmt.Errorf("%w: %w", api.ErrExhausted, full))
	}
	select {
	case l.others <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// Accept returns the next gRPC connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.others:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the socket.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.socket.Close()
	})
	return err
}

// Addr returns the socket's address.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// Peek returns the first four bytes of a connection as a little-endian word. They stay in the
// socket.
func Peek(conn *net.UnixConn) (first uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(peekTime)); err != nil {
		return 0, err
	}
	var failure error
	err = raw.Read(func(fd uintptr) bool {
		var head [4]byte
		got, _, err := unix.Recvfrom(int(fd), head[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), err == nil && got > 0 && got < len(head):
			return false
		case err != nil:
			failure = os.NewSyscallError("recvfrom", err)
		case got == 0:
			failure = net.ErrClosed
		}
		first = uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16 | uint32(head[3])<<24
		return true
	})
	return first, errors.Join(err, failure, conn.SetReadDeadline(time.Time{}))
}
