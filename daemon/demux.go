package daemon

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/handover"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/hijack/wire"
)

// maxUndecided is how many connections of one user may be saying nothing, or be starting a program, at a time.
const maxUndecided = 64

// maxRequesters is how many connections of one user may be open for requests. Some more get an error for an answer, and
// are closed after refusedTime.
const (
	maxRequesters = 64
	maxRefused    = 16
	refusedTime   = 5 * time.Second
)

// What a user may hand over at a time: an image directory, and all that leads out of a process tree.
const (
	handedFiles  = 256
	handedTokens = 4
)

// demux sorts connections by their first four bytes: the handshake of a program, its question about the GPUs, files handed over, or gRPC. For gRPC it
// is a net.Listener.
type demux struct {
	daemon   *Daemon
	listener *net.UnixListener
	grpc     chan net.Conn
	closed   chan struct{}
	once     sync.Once
	running  sync.WaitGroup

	mu sync.Mutex // guards all below
	// By user: connections that say nothing yet, and those that are open for requests.
	undecided, requesters map[uint32]int
}

func newDemux(d *Daemon, listener *net.UnixListener) *demux {
	return &demux{
		daemon: d, listener: listener, grpc: make(chan net.Conn), closed: make(chan struct{}),
		undecided: make(map[uint32]int), requesters: make(map[uint32]int),
	}
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
	defer m.leave(m.undecided, actor.UID)
	first, err := handover.Peek(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case first == wire.Magic:
		m.daemon.welcome(conn, actor)
	case first == wire.InquiryMagic:
		m.daemon.answer(conn, actor)
	case first == handover.Magic:
		if err := m.daemon.desk.Accept(conn); err != nil {
			m.daemon.log.Warn("handover", "error", err)
		}
	default:
		m.handOver(conn, actor)
	}
}

// handOver gives a connection to gRPC, which keeps it for as long as its other end wants to. Each costs memory and a
// descriptor, so a user has no more than some.
func (m *demux) handOver(accepted *net.UnixConn, actor rpc.Actor) {
	conn := &rpc.CountedConn{UnixConn: accepted, Closed: func() { m.leave(m.requesters, actor.UID) }}
	switch open := m.count(m.requesters, actor.UID); {
	case actor.Root() || open <= maxRequesters:
	case open > maxRequesters+maxRefused:
		_ = conn.Close()
		return
	default:
		m.daemon.log.Warn("too many connections of a user", "uid", actor.UID, "pid", actor.PID)
		conn.Refused = fmt.Errorf("%w: this user has %d connections to phosd open already", rpc.ErrExhausted, maxRequesters)
		time.AfterFunc(refusedTime, func() { _ = conn.Close() })
	}
	select {
	case m.grpc <- conn:
	case <-m.closed:
		_ = conn.Close()
	}
}

func (m *demux) enter(uid uint32) bool {
	if m.count(m.undecided, uid) > maxUndecided && uid != 0 {
		m.leave(m.undecided, uid)
		return false
	}
	return true
}

// count adds a connection of a user, and returns how many he has.
func (m *demux) count(connections map[uint32]int, uid uint32) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	connections[uid]++
	return connections[uid]
}

func (m *demux) leave(connections map[uint32]int, uid uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if connections[uid]--; connections[uid] == 0 {
		delete(connections, uid)
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
