package daemon

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	// peekTime is how long a connection may say nothing.
	peekTime = 5 * time.Second
	// maxUndecided is how many connections of one user may be saying nothing, or be starting a program, at a time.
	maxUndecided = 64
)

// demux sorts connections by their first four bytes: the handshake of a program, or gRPC. For gRPC it is a net.Listener.
type demux struct {
	daemon   *Daemon
	listener *net.UnixListener
	grpc     chan net.Conn
	closed   chan struct{}
	once     sync.Once
	running  sync.WaitGroup

	mu        sync.Mutex // guards undecided
	undecided map[uint32]int
}

func newDemux(d *Daemon, listener *net.UnixListener) *demux {
	return &demux{daemon: d, listener: listener, grpc: make(chan net.Conn), closed: make(chan struct{}), undecided: make(map[uint32]int)}
}

// accept sorts connections until the listener closes.
func (m *demux) accept() {
	defer m.Close()
	for {
		conn, err := m.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: they come back.
			m.daemon.log.Error("accept", "error", err)
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // nothing tells when descriptors are free again
			continue
		}
		m.running.Go(func() { m.sort(conn) })
	}
}

func (m *demux) sort(conn *net.UnixConn) {
	actor, err := rpc.PeerOf(conn)
	if err != nil || !m.enter(actor.UID) {
		m.daemon.log.Warn("connection refused", "uid", actor.UID, "error", err)
		_ = conn.Close()
		return
	}
	defer m.leave(actor.UID)
	first, err := peek(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case first == wire.Magic:
		m.daemon.welcome(conn, actor)
	default:
		m.handOver(conn)
	}
}

func (m *demux) handOver(conn net.Conn) {
	select {
	case m.grpc <- conn:
	case <-m.closed:
		_ = conn.Close()
	}
}

func (m *demux) enter(uid uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid != 0 && m.undecided[uid] >= maxUndecided {
		return false
	}
	m.undecided[uid]++
	return true
}

func (m *demux) leave(uid uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.undecided[uid]--; m.undecided[uid] == 0 {
		delete(m.undecided, uid)
	}
}

// wait returns when every connection is sorted.
func (m *demux) wait() { m.running.Wait() }

// Accept is the next gRPC connection.
func (m *demux) Accept() (net.Conn, error) {
	select {
	case conn := <-m.grpc:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; the socket itself is closed by Serve.
func (m *demux) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr is the socket's.
func (m *demux) Addr() net.Addr { return m.listener.Addr() }

// peek reads the first four bytes and leaves them in the socket.
func peek(conn *net.UnixConn) (first uint32, err error) {
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
