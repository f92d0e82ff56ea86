package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cli/readiness"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/control/serve"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/cluster/members"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/daemon/api"
)

// controller is everything that runs in this process.
type controller struct {
	config   config
	settings control.Settings
	log      *slog.Logger
	address  string // by which nodes reach it
	objects  store.Store
	members  *members.Members
	servers  []*grpc.Server
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
	k := &controller{config: c, settings: settings, log: log}
	listener, err := net.Listen("tcp", c.Controller.Listen)
	if err != nil {
		return fmt.Errorf("listen for nodes: %w", err)
	}
	defer listener.Close()
	if k.address, err = advertised(listener.Addr()); err != nil {
		return err
	}
	running, err := k.openStore(ctx)
	if err != nil {
		return err
	}
	defer running.Close()
	defer k.objects.Close()
	return k.run(ctx, running, listener, ready)
}

// openStore starts the etcd of this controller, and connects to it.
func (k *controller) openStore(ctx context.Context) (*server.Server, error) {
	dir := k.config.Controller.StateDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	running, err := server.Start(ctx, server.Config{Cluster: "phos", Name: host, DataDir: filepath.Join(dir, "etcd"), Log: k.log})
	if err != nil {
		return nil, err
	}
	endpoint := "unix://" + filepath.Join(dir, "etcd", server.SocketName)
	if k.objects, err = etcd.Open(etcd.Config{
		Endpoints: []string{endpoint}, Lease: time.Duration(k.config.Controller.Lease), Log: k.log,
	}); err != nil {
		return nil, errors.Join(err, running.Close())
	}
	return running, nil
}

// failing is a part of the controller that may end by itself, as server.Server.
type failing interface {
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
	if k.members, err = members.Open(ctx, k.objects, []string{k.address}); err != nil {
		return err
	}
	kept, err := code.NewStore(filepath.Join(k.config.Controller.StateDir, "code"))
	if err != nil {
		return err
	}
	leading := control.NewController(k.objects, k.settings, k.address, k.log)
	services := serve.New(leading, serve.Parts{
		Callers: k.members, People: k.members, Joins: k.members, Code: kept,
	})
	if err := k.serveNetwork(ctx, services, listener, fail); err != nil {
		return err
	}
	socket, err := k.serveSocket(services, fail)
	if err != nil {
		return err
	}
	defer os.Remove(socket)
	defer k.stop()
	supervisor := readiness.FindSupervisor(k.log)
	status := "serving nodes at " + k.address
	ready.Say("ready\t%s\t%s\t%s", socket, k.address, k.members.Cluster())
	supervisor.Ready(status)
	k.log.Info("controller ready", "cluster", k.members.Cluster(), "address", k.address, "socket", socket)
	err = leading.Run(ctx)
	supervisor.Stopping("stopping; launches go on")
	return err
}

// serveNetwork serves nodes and people by TLS.
func (k *controller) serveNetwork(
	ctx context.Context, services serve.Services, listener net.Listener, fail context.CancelCauseFunc,
) error {
	names, err := k.names()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // it was asked for before
	holder, err := k.members.Certificates(ctx, host, names)
	if err != nil {
		return err
	}
	tls := grpc.Creds(credentials.NewTLS(channel.Server(holder, time.Now)))
	network := grpc.NewServer(append(serve.ServerOptions(k.log), tls)...)
	services.Register(network, true)
	k.serve(network, listener, fail)
	return nil
}

// serveSocket serves people of this machine, and returns the path.
func (k *controller) serveSocket(services serve.Services, fail context.CancelCauseFunc) (string, error) {
	path := k.config.Controller.Socket
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // the kernel names the caller
		return "", fmt.Errorf("socket: %w", err)
	}
	creds := grpc.Creds(members.LocalCredentials(local.Rules{AllowRoot: true}))
	people := grpc.NewServer(append(serve.ServerOptions(k.log), creds)...)
	services.Register(people, false)
	k.serve(people, listener, fail)
	return path, nil
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
	for _, s := range k.servers {
		s.Stop()
	}
}

// names returns the names and addresses of this machine, for browsers.
func (k *controller) names() (authority.Names, error) {
	host, err := os.Hostname()
	if err != nil {
		return authority.Names{}, err
	}
	names := authority.Names{DNS: []string{host, "localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return names, err
	}
	for _, each := range addresses {
		if ip, ok := each.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			names.IPs = append(names.IPs, ip.IP)
		}
	}
	for _, name := range k.config.Controller.Names {
		if ip := net.ParseIP(name); ip != nil {
			names.IPs = append(names.IPs, ip)
		} else {
			names.DNS = append(names.DNS, name)
		}
	}
	return names, nil
}

// advertised returns the address by which others reach a listener. One that listens everywhere is
// reached by the first address of the machine that is not its loopback.
func advertised(at net.Addr) (string, error) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return at.String(), nil
	}
	if !tcp.IP.IsUnspecified() {
		return tcp.String(), nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, each := range addresses {
		if ip, ok := each.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && !ip.IP.IsLinkLocalUnicast() {
			return (&net.TCPAddr{IP: ip.IP, Port: tcp.Port}).String(), nil
		}
	}
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}).String(), nil
}
