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

// maxUndecided is how many connections of one user may be saying nothing, or be starting a program,
// at a time.
const maxUndecided = 64

// maxRequesters is how many connections of one user may be open for requests. Some more get an
// error for an answer.
const (
	maxRequesters = 64
	maxRefused    = 16
)

// Options say who takes what comes in.
type Options struct {
	// Program serves a program that wants a session, Inquiry one that only asks about the GPUs.
	Program, Inquiry func(*net.UnixConn, api.Actor)
	// Files takes files that are handed over.
	Files func(*net.UnixConn) error
	Log   *slog.Logger
}

// Door sorts connections. For gRPC it is a net.Listener.
type Door struct {
	options  Options
	listener *net.UnixListener
	intake   *accept.Intake
	requests chan net.Conn
	closed   chan struct{}
	once     sync.Once
	running  sync.WaitGroup

	mu sync.Mutex // guards all below
	// By user: connections that say nothing yet, and those that are open for requests.
	undecided, requesters map[uint32]int
}

// New makes a door of a socket; nobody comes in before Open.
func New(listener *net.UnixListener, options Options) (*Door, error) {
	connections, err := accept.New(listener, options.Log)
	if err != nil {
		return nil, err
	}
	return &Door{
		options: options, listener: listener, intake: connections, requests: make(chan net.Conn), closed: make(chan struct{}),
		undecided: make(map[uint32]int), requesters: make(map[uint32]int),
	}, nil
}

// Open sorts connections until the listener closes.
func (d *Door) Open() {
	defer d.Close()
	for {
		conn, full, err := d.intake.Next()
		if err != nil {
			return
		}
		d.running.Go(func() { d.sort(conn, full) })
	}
}

// sort passes a connection on. When all descriptors are in use it is the one that has the last: who
// needs none is served, and the others find none, but requests are refused, as their connection may
// stay for long.
func (d *Door) sort(conn *net.UnixConn, full error) {
	actor, err := api.PeerOf(conn)
	if err != nil || !d.enter(actor.UID) {
		d.options.Log.Warn("connection refused", "uid", actor.UID, "error", err)
		_ = conn.Close()
		return
	}
	defer d.leave(d.undecided, actor.UID)
	first, err := fdtoken.Peek(conn)
	switch {
	case err != nil:
		_ = conn.Close()
	case first == wire.Magic:
		d.options.Program(conn, actor)
	case first == wire.InquiryMagic:
		d.options.Inquiry(conn, actor)
	case first == fdtoken.Magic:
		if err := d.options.Files(conn); err != nil {
			d.options.Log.Warn("handover", "error", err)
		}
	default:
		d.handOver(conn, actor, full)
	}
}

// handOver gives a connection to gRPC, which keeps it for as long as its other end wants to. Each
// costs memory and a descriptor, so a user has no more than some.
func (d *Door) handOver(accepted *net.UnixConn, actor api.Actor, full error) {
	conn := &api.CountedConn{UnixConn: accepted, Closed: func() { d.leave(d.requesters, actor.UID) }}
	switch open := d.count(d.requesters, actor.UID); {
	case full != nil:
		conn.Refuse(fmt.Errorf("%w: %w", api.ErrExhausted, full))
	case actor.Root() || open <= maxRequesters:
	case open > maxRequesters+maxRefused:
		_ = conn.Close()
		return
	default:
		d.options.Log.Warn("too many connections of a user", "uid", actor.UID, "pid", actor.PID)
		conn.Refuse(fmt.Errorf("%w: this user has %d connections to phosd open already", api.ErrExhausted, maxRequesters))
	}
	select {
	case d.requests <- conn:
	case <-d.closed:
		_ = conn.Close()
	}
}

func (d *Door) enter(uid uint32) bool {
	if d.count(d.undecided, uid) > maxUndecided && uid != 0 {
		d.leave(d.undecided, uid)
		return false
	}
	return true
}

// count adds a connection of a user, and returns how many he has.
func (d *Door) count(connections map[uint32]int, uid uint32) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	connections[uid]++
	return connections[uid]
}

func (d *Door) leave(connections map[uint32]int, uid uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if connections[uid]--; connections[uid] == 0 {
		delete(connections, uid)
	}
}

// Wait returns when every connection is sorted.
func (d *Door) Wait() { d.running.Wait() }

// Accept is the next gRPC connection.
func (d *Door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.requests:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; the socket itself stays.
func (d *Door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr is the socket's.
func (d *Door) Addr() net.Addr { return d.listener.Addr() }
