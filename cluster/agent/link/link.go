package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/renewal"
)

// Host is what a Link attaches to the cluster: a node with what runs there.
type Host interface {
	// Hello introduces the node, with what it has of attempts.
	Hello(context.Context) *api.Hello
	// Inventory returns what the node has for launches.
	Inventory(context.Context) *api.Inventory
	// ReportTo sends all reports from now on to a stream, until stop is called.
	ReportTo(report func(*api.Report)) (stop func())
	// Follow makes orders true, and does not wait for that. An error ends the stream.
	Follow(context.Context, api.AgentsClient, *api.Orders) error
	// Renewed says until when what runs on the node may run, by the clock of boottime.
	Renewed(ctx context.Context, deadline time.Duration)
	// Answer answers a question of the leader in parts.
	Answer(ctx context.Context, ask *api.Ask, send func(*api.AnswerPart) error) error
	// Exec runs a command for the leader, by a stream of its own.
	Exec(ctx context.Context, client api.AgentsClient, ask *api.Ask)
	// Attached begins what goes on beside the stream to a leader, and ends with the context.
	Attached(ctx context.Context, client api.AgentsClient)
}

// Contact is how a node reaches the controllers.
type Contact struct {
	// Controllers are where the controllers are reached; Dial connects to one.
	Controllers []string
	Dial        func(address string) (*grpc.ClientConn, error)
	// SaveControllers keeps other addresses of controllers for the next start.
	SaveControllers func([]string) error
	// Certificate is what the node shows to them.
	Certificate *renewal.Node
	Log         *slog.Logger
}

// Dialer returns what connects to controllers as the node of a certificate.
func Dialer(holder *channel.Holder) func(address string) (*grpc.ClientConn, error) {
	return func(address string) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(credentials.NewTLS(channel.Client(holder, time.Now))),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: api.KeepAlive, Timeout: api.KeepAlive / 2}))
	}
}

// Link keeps a node attached to the controller that leads.
type Link struct {
	contact     Contact
	host        Host
	controllers *controllers
	// conns are connections to controllers that did not lead when they were asked, by address.
	conns map[string]*grpc.ClientConn
}

// New returns a link that is not attached yet.
func New(contact Contact, host Host) *Link {
	return &Link{
		contact: contact, host: host, controllers: &controllers{all: contact.Controllers}, conns: map[string]*grpc.ClientConn{},
	}
}

// Times of connections.
const (
	retryLeast = 100 * time.Millisecond
	retryMost  = time.Second
)

// Run attaches the node again and again, until the context ends.
func (l *Link) Run(ctx context.Context) error {
	defer l.disconnect()
	retry := retryLeast
	for ctx.Err() == nil {
		attached, err := l.attach(ctx)
		if ctx.Err() != nil {
			break
		}
		wait := retry/2 + rand.N(retry)
		if attached { // many nodes have lost the same leader at this time: they come one by one
			retry, wait = retryLeast, rand.N(retryMost)
		}
		l.contact.Log.Info("no controller leads this node", "error", err, "retry", wait)
		if errors.Is(err, api.ErrNotPermitted) {
			retry, wait = retryMost, retryMost
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		retry = min(2*retry, retryMost)
	}
	return ctx.Err()
}

// connect returns a connection to a controller. As long as none leads, each is asked again and
// again, by the same connection: with many nodes, handshakes would take longer than elections.
func (l *Link) connect(ctx context.Context, address string) (*grpc.ClientConn, error) {
	conn := l.conns[address]
	if conn == nil {
		var err error
		if conn, err = l.contact.Dial(address); err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		l.conns[address] = conn
	}
	return conn, api.Reach(ctx, address, conn)
}

// keepOnly closes all connections but one.
func (l *Link) keepOnly(address string) {
	for other, conn := range l.conns {
		if other != address {
			_ = conn.Close()
			delete(l.conns, other)
		}
	}
}

// disconnect closes all connections.
func (l *Link) disconnect() {
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}
