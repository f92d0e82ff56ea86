package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cli/readiness"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/control/serve"
	"github.com/phos-gpu/phos/cluster/gateway"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/cluster/inside"
	"github.com/phos-gpu/phos/cluster/members"
	"github.com/phos-gpu/phos/cluster/metrics"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/web"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/ticks"
)

// controller is everything that runs in this process.
type controller struct {
	config   config
	name     string // among several controllers
	settings control.Settings
	log      *slog.Logger
	address  string // by which nodes reach it
	objects  store.Store
	members  *members.Members
	full     func() bool     // whether its own store is full; nil: it has none
	holder   *channel.Holder // of the certificate; nil before the store was read
	servers  []*grpc.Server
	// page is for browsers, on pageListener. Both are nil if none is served.
	page         *web.Server
	pageListener net.Listener
	numbers      *metrics.Controller
	glance       metrics.Source
	inner        *inside.Server
	gateway      *gateway.Server
}

// serveCluster runs a controller until the context ends.
func serveCluster(ctx context.Context, c config, ready *readiness.Pipe, log *slog.Logger) error {
	settings, err := c.settings(api.Version)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("a controller runs as root: it keeps the keys of the cluster")
	}
	k := newController(c, settings, log)
	if k.name, err = c.name(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Controller.Listen)
	if err != nil {
		return fmt.Errorf("listen for nodes: %w", err)
	}
	defer listener.Close()
	if k.address, err = c.address(k.name, listener.Addr()); err != nil {
		return err
	}
	err = k.serveStore(ctx, listener, ready)
	if errors.Is(err, server.ErrDiskFull) && !ready.Open() { // otherwise its starter is told
		listener.Close()
		return k.startAgain(ctx, err)
	}
	return err
}

// serveStore opens the store, and runs until the context ends or the store fails. One that has
// failed is not closed: that would wait for parts of it which have ended.
func (k *controller) serveStore(ctx context.Context, listener net.Listener, ready *readiness.Pipe) error {
	running, err := k.openStore(ctx)
	if err != nil {
		return err
	}
	defer k.objects.Close()
	k.keepReserve()
	err = k.run(ctx, running, listener, ready)
	if running.Err() != nil {
		return err
	}
	return errors.Join(err, running.Close())
}

// newController returns a controller that has opened nothing yet.
func newController(c config, settings control.Settings, log *slog.Logger) *controller {
	k := &controller{config: c, settings: settings, log: log}
	k.numbers = newNumbers(k)
	k.settings.Numbers, k.settings.Room, k.settings.Others = k.numbers, k.room, len(c.Store.Peers) > 1
	k.settings.Decisions = filepath.Join(c.Controller.StateDir, "decisions")
	return k
}

// failing is a part of the controller that may end by itself, as server.Server.
type failing interface {
	Close() error
	Failed() <-chan struct{}
	Err() error
}

// failWith ends the controller when its store has failed: it could neither lead nor answer.
func failWith(ctx context.Context, kept failing, fail context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-kept.Failed():
		fail(fmt.Errorf("the store of this controller has failed, and it ends; launches go on: %w", kept.Err()))
	}
}

// run serves and leads until the context ends, or something fails that it cannot do without.
func (k *controller) run(ctx context.Context, kept failing, listener net.Listener, ready *readiness.Pipe) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go failWith(running, kept, cancel)
	err := k.lead(running, cancel, listener, ready)
	if ctx.Err() == nil && running.Err() != nil {
		return context.Cause(running)
	}
	return err
}

// lead serves and leads until the context ends. Servers that fail end it.
func (k *controller) lead(
	ctx context.Context, fail context.CancelCauseFunc, listener net.Listener, ready *readiness.Pipe,
) (err error) {
	k.inner = inside.NewServer()
	k.gateway = gateway.NewServer(k.inner, k.log)
	if k.members, err = k.openMembers(ctx); err != nil {
		return err
	}
	holder, err := k.certificates(ctx)
	if err != nil {
		return err
	}
	k.holder = holder
	copies, err := k.openCode(holder)
	if err != nil {
		return err
	}
	ends, err := logs.NewStore(filepath.Join(k.config.Controller.StateDir, "logs"))
	if err != nil {
		return err
	}
	k.settings.Forgotten = ends.Forget
	if err := k.listenWeb(); err != nil {
		return err
	}
	go copies.SweepUnused(ctx, k.objects, k.settings.KeepEnded, k.log)
	leading := control.NewController(k.objects, k.settings, k.address, k.log)
	services := serve.New(leading, serve.Parts{
		Callers: k.members, People: k.members, Joins: k.members, Controllers: k.members, Code: copies, Logs: ends,
	})
	k.glance = glanceAt(leading, k.members)
	defer k.serveNumbers()()
	k.serveNetwork(holder, services, listener, fail)
	socket, err := k.serveSocket(services, fail)
	if err != nil {
		return err
	}
	defer os.Remove(socket)
	defer k.stop()
	if err := k.serveWeb(holder, services, fail); err != nil {
		return err
	}
	if err := k.serveOthers(fail); err != nil {
		return err
	}
	supervisor := readiness.FindSupervisor(k.log)
	ready.Say("ready\t%s\t%s\t%s", socket, k.address, k.members.Cluster())
	supervisor.Ready("serving nodes at " + k.address)
	k.log.Info("controller ready", "cluster", k.members.Cluster(), "address", k.address, "socket", socket, "page", k.settings.Page)
	err = leading.Run(ctx)
	if !errors.Is(context.Cause(ctx), server.ErrDiskFull) { // it goes on after that
		supervisor.Stopping("stopping; launches go on")
	}
	return err
}

// storeAfter is the pause before a store that does not answer is asked again.
const storeAfter = time.Second

// openMembers opens the members of the cluster, and tells of this controller. A controller with
// peers waits while the store does not answer: one of them may have just died.
func (k *controller) openMembers(ctx context.Context) (*members.Members, error) {
	settings := members.Settings{
		Self:     record.Controller{Name: k.name, Address: k.address, Version: api.Version},
		Peers:    slices.Collect(maps.Keys(k.config.Store.Peers)),
		NodeLife: time.Duration(k.config.Nodes.Certificate),
	}
	for {
		opened, err := members.Open(ctx, k.objects, settings)
		if len(settings.Peers) == 0 || !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return opened, err
		}
		k.log.Warn("waiting for the store", "error", err)
		_ = ticks.Pause(ctx, storeAfter) // the next try says that the context has ended
	}
}

// certificates returns how this controller shows itself.
func (k *controller) certificates(ctx context.Context) (*channel.Holder, error) {
	names, err := k.names()
	if err != nil {
		return nil, err
	}
	k.members.Follow(ctx)
	return k.members.Certificates(ctx, k.name, names)
}

// serveNetwork serves nodes and people by TLS.
func (k *controller) serveNetwork(
	holder *channel.Holder, services serve.Services, listener net.Listener, fail context.CancelCauseFunc,
) {
	tls := grpc.Creds(k.inner.Credentials(credentials.NewTLS(channel.Server(holder, time.Now)), k.gateway.Divert))
	network := grpc.NewServer(append(serve.ServerOptions(k.log), tls)...)
	services.Register(network, true)
	k.serve(network, listener, fail)
}

// serveSocket serves people of this machine, and returns the path.
func (k *controller) serveSocket(services serve.Services, fail context.CancelCauseFunc) (string, error) {
	listener, err := k.listenSocket()
	if err != nil {
		return "", err
	}
	creds := grpc.Creds(k.inner.Credentials(members.LocalCredentials(local.Rules{AllowRoot: true}), k.gateway.Divert))
	people := grpc.NewServer(append(serve.ServerOptions(k.log), creds)...)
	services.Register(people, false)
	k.serve(people, listener, fail)
	k.serve(people, k.inner, fail)
	return k.config.Controller.Socket, nil
}

// listenSocket listens for people of this machine.
func (k *controller) listenSocket() (net.Listener, error) {
	path := k.config.Controller.Socket
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // the kernel names the caller
		return nil, errors.Join(fmt.Errorf("socket: %w", err), listener.Close())
	}
	return listener, nil
}

// serve serves a listener. If that ends by itself, the controller ends.
func (k *controller) serve(s *grpc.Server, listener net.Listener, fail context.CancelCauseFunc) {
	k.servers = append(k.servers, s)
	go func() {
		if err := s.Serve(listener); err != nil {
			fail(fmt.Errorf("serve %s: %w", listener.Addr(), err))
		}
	}()
}

// stop ends all servers.
func (k *controller) stop() {
	if k.page != nil {
		_ = k.page.Close() // the process ends anyway
	}
	_ = k.gateway.Close() // the process ends anyway
	for _, s := range k.servers {
		s.Stop()
	}
}
