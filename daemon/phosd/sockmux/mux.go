package sockmux

import (
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/accept"
)

// maxPending is how many connections of one user may be silent, or be starting a program, at a
// time.
const maxPending = 64

// maxRequesters is how many gRPC connections one user may have open. maxRefused more get an error
// for an answer; the others are closed.
const (
	maxRequesters = 64
	maxRefused    = 16
)

// Options say what serves the connections.
type Options struct {
	// Program serves a program that wants a session, Inquiry one that only asks about the GPUs.
	Program, Inquiry func(*net.UnixConn, api.Caller)
	// Files accepts files that are handed off.
	Files func(*net.UnixConn) error
	// MayUse returns an error for a user that may not use phosd. Program calls it itself.
	MayUse func(api.Caller) error
	Log    *slog.Logger
}

// Mux dispatches connections. For gRPC it is a net.Listener.
type Mux struct {
	options  Options
	listener *net.UnixListener
	accepts  *accept.Acceptor
	requests chan net.Conn
	closed   chan struct{}
	once     sync.Once
	running  sync.WaitGroup

	mu sync.Mutex // guards all below
	// By user: connections that are silent yet, and gRPC connections.
	pending, requesters map[uint32]int
}

// New makes a Mux of a socket. It accepts no connection before Run.
func New(listener *net.UnixListener, options Options) (*Mux, error) {
	connections, err := accept.New(listener, options.Log)
	if err != nil {
		return nil, err
	}
	return &Mux{
		options: options, listener: listener, accepts: connections, requests: make(chan net.Conn), closed: make(chan struct{}),
		pending: make(map[uint32]int), requesters: make(map[uint32]int),
	}, nil
}

// Run accepts and dispatches connections until the listener closes.
func (m *Mux) Run() {
	defer m.Close()
	for {
		conn, full, err := m.accepts.Next()
		if err != nil {
			return
		}
		m.running.Go(func() { m.dispatch(conn, full) })
	}
}

// dispatch passes a connection on. If full is set, conn holds the last free file descriptor.
// Handshakes and inquiries are served all the same. gRPC connections are refused, because they may
// be long-lived.
func (m *Mux) dispatch(conn *net.UnixConn, full error) {
	caller, err := api.PeerOf(conn)
	if err != nil || !m.enter(caller.UID) {
		m.options.Log.Warn("connection refused", "uid", caller.UID, "error", err)
		_ = conn.Close()
		return
	}
	defer m.leave(m.pending, caller.UID)
	first, err := fdtoken.Peek(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case first == wire.Magic: // the handler refuses users that are not allowed, with an answer
		m.options.Program(conn, caller)
	case m.options.MayUse(caller) != nil && (first == wire.InquiryMagic || first == fdtoken.Magic):
		_ = conn.Close()
	case first == wire.InquiryMagic:
		m.options.Inquiry(conn, caller)
	case first == fdtoken.Magic:
		if err := m.options.Files(conn); err != nil {
			m.options.Log.Warn("handoff failed", "error", err)
		}
	default:
		m.toGRPC(conn, caller, full)
	}
}

// toGRPC passes a connection to gRPC. It stays open until the peer closes it and takes memory and a
// file descriptor, so the number of a user's connections is limited.
func (m *Mux) toGRPC(accepted *net.UnixConn, caller api.Caller, full error) {
	conn := &api.CountedConn{UnixConn: accepted, Closed: func() { m.leave(m.requesters, caller.UID) }}
	refusal := m.options.MayUse(caller)
	switch open := m.count(m.requesters, caller.UID); {
	case open > maxRequesters+maxRefused && !caller.Root():
		_ = conn.Close()
		return
	case refusal != nil:
		conn.Refuse(refusal)
	case full != nil:
		conn.Refuse(fmt.Errorf("%w: %w", api.ErrExhausted, full))
	case caller.Root() || open <= maxRequesters:
	default:
		m.options.Log.Warn("connection refused: too many of this user", "uid", caller.UID, "pid", caller.Process.PID)
		conn.Refuse(fmt.Errorf("%w: this user has %d connections to phosd open already", api.ErrExhausted, maxRequesters))
	}
	select {
	case m.requests <- conn:
	case <-m.closed:
		_ = conn.Close()
	}
}

// enter counts a pending connection, and reports whether the user may have it.
func (m *Mux) enter(uid uint32) bool {
	if m.count(m.pending, uid) > maxPending && uid != 0 {
		m.leave(m.pending, uid)
		return false
	}
	return true
}

// count adds a connection of a user, and returns how many the user has.
func (m *Mux) count(connections map[uint32]int, uid uint32) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	connections[uid]++
	return connections[uid]
}

// leave undoes count.
func (m *Mux) leave(connections map[uint32]int, uid uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if connections[uid]--; connections[uid] == 0 {
		delete(connections, uid)
	}
}

// Wait returns when every connection is dispatched.
func (m *Mux) Wait() { m.running.Wait() }

// Accept returns the next gRPC connection.
func (m *Mux) Accept() (net.Conn, error) {
	select {
	case conn := <-m.requests:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The socket itself stays.
func (m *Mux) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr returns the socket's address.
func (m *Mux) Addr() net.Addr { return m.listener.Addr() }
