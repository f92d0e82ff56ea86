package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// router sends each request to the controller that leads.
type router struct {
	endpoints Endpoints

	mu      sync.Mutex // guards all below
	conns   map[string]*grpc.ClientConn
	current string // the address of the controller that is taken for the leader
	closed  bool
}

// attempt is what is known of one try of a request.
type attempt struct {
	trailer metadata.MD
	// sent means that the server may have seen the request.
	sent atomic.Bool
}

// attemptKey is the key of the attempt in a context.
type attemptKey struct{}

// sentWatch sees when a request is written to a connection. It implements stats.Handler.
type sentWatch struct{}

// TagRPC implements stats.Handler.
func (sentWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (sentWatch) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, written := event.(*stats.OutHeader); !written {
		return
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.sent.Store(true)
	}
}

// TagConn implements stats.Handler.
func (sentWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (sentWatch) HandleConn(context.Context, stats.ConnStats) {}

// Waits between tries while no controller leads. The first is short, because an election is.
const (
	firstWait = 50 * time.Millisecond
	maxWait   = 2 * time.Second
)

// maxHops is how many addresses are followed in a row. Controllers that name each other are left
// alone for a while after so many.
const maxHops = 4

// seek makes a request until a controller that leads has answered, or the patience is over. A
// request that the leader may have seen is repeated only if that does no harm.
func (r *router) seek(
	ctx context.Context, harmless bool, try func(context.Context, *grpc.ClientConn, *attempt) error,
) error {
	timeout := time.NewTimer(r.endpoints.Patience)
	defer timeout.Stop()
	for wait, hops := firstWait, 0; ; {
		address := r.leader()
		a := &attempt{}
		err := r.once(ctx, address, a, try)
		if status.Code(err) != codes.Unavailable {
			return FromStatus(err)
		}
		named, follower := a.trailer[LeaderKey] // a controller that does not lead has done nothing
		if !follower && a.sent.Load() && !harmless {
			return FromStatus(err)
		}
		moved, why := r.move(address, named)
		if moved && follower && hops < maxHops {
			hops++
			continue
		}
		select {
		case <-ctx.Done():
			return FromStatus(status.FromContextError(ctx.Err()).Err())
		case <-timeout.C:
			return r.giveUp(err, why)
		case <-time.After(wait):
		}
		wait, hops = min(2*wait, maxWait), 0
	}
}

// once makes one try with the controller at an address.
func (r *router) once(
	ctx context.Context, address string, a *attempt, try func(context.Context, *grpc.ClientConn, *attempt) error,
) error {
	conn, err := r.conn(address)
	if err != nil {
		return err
	}
	if err := Reach(ctx, address, conn); err != nil {
		return err
	}
	return try(context.WithValue(ctx, attemptKey{}, a), conn, a)
}

// giveUp returns the error of a request for which no leader was found.
func (r *router) giveUp(err error, why string) error {
	text := status.Convert(err).Message()
	if why != "" {
		text += "; " + why
	}
	return &Error{Text: fmt.Sprintf("%s (tried for %s)", text, r.endpoints.Patience), Err: ErrUnavailable}
}

// leader returns the address of the controller that is taken for the leader.
func (r *router) leader() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// move chooses the next address after one that did not answer as the leader: the one that it has
// named, or the next that is known. It reports whether that is another address, and why the named
// one cannot be used.
func (r *router) move(from string, named []string) (moved bool, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != from {
		return true, "" // another request has moved it
	}
	if len(named) > 0 && named[0] != "" && named[0] != from {
		if r.endpoints.TLS != nil || isSocket(named[0]) {
			r.current = named[0]
			return true, ""
		}
		why = fmt.Sprintf("the controller at %s leads, and reaching it needs a token: phos user token", named[0])
	}
	known := r.endpoints.Addresses
	r.current = known[(slices.Index(known, from)+1)%len(known)]
	return false, why
}

// isSocket reports whether an address is the path of a socket.
func isSocket(address string) bool { return strings.HasPrefix(address, "/") }

// errClosed is returned for requests after Close.
var errClosed = errors.New("the client is closed")

// conn returns the connection to an address, which is made when it is first used.
func (r *router) conn(address string) (*grpc.ClientConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if conn := r.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := dial(address, r.endpoints)
	if err != nil {
		return nil, err
	}
	r.conns[address] = conn
	return conn, nil
}

// close ends all connections.
func (r *router) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}
