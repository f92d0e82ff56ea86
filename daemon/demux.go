package daemon

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/handover"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/hijack/wire"
)

// maxUndecided is how many connections of one user may be saying nothing, or be starting a program, at a time.
const maxUndecided = 64

// What a user may hand over at a time: an image directory, and all that leads out of a process tree.
const (
	handedFiles  = 256
	handedTokens = 4
)

// demux sorts connections by their first four bytes: the handshake of a program, files handed over, or gRPC. For gRPC it
// is a net.Listener.
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
	first, err := handover.Peek(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case first == wire.Magic:
		m.daemon.welcome(conn, actor)
	case first == handover.Magic:
		if err := m.daemon.desk.Accept(conn); err != nil {
			m.daemon.log.Warn("handover", "error", err)
		}
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
