package apitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// Controller is one controller of a Cluster.
type Controller struct {
	// Socket is where it listens.
	Socket string

	cluster *Cluster
	server  *grpc.Server
	// leader is the address that requests are sent to; nil: this controller leads.
	leader atomic.Pointer[string]
	// fail is called before each request. Its error is returned.
	fail atomic.Pointer[func(method string) error]
	seen atomic.Int64
}

// Listen starts a controller, which leads, on a socket of its own.
func (c *Cluster) Listen(t *testing.T) *Controller {
	t.Helper()
	return c.ListenAt(t, filepath.Join(t.TempDir(), "controller.sock"))
}

// ListenAt starts a controller, which leads, on a socket.
func (c *Cluster) ListenAt(t *testing.T, socket string) *Controller {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	k := &Controller{Socket: socket, cluster: c}
	k.server = grpc.NewServer(
		grpc.UnaryInterceptor(func(
			ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
		) (any, error) {
			if err := k.admit(ctx, info.FullMethod); err != nil {
				return nil, api.ToStatus(err)
			}
			reply, err := handle(ctx, request)
			return reply, translate(err)
		}),
		grpc.StreamInterceptor(func(
			server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
		) error {
			if err := k.admit(stream.Context(), info.FullMethod); err != nil {
				return api.ToStatus(err)
			}
			return translate(handle(server, stream))
		}),
	)
	api.RegisterLaunchesServer(k.server, &launches{cluster: c})
	api.RegisterClusterServer(k.server, &clusterService{cluster: c})
	go func() { _ = k.server.Serve(listener) }() // it returns when the server is stopped
	t.Cleanup(k.Kill)
	return k
}

// translate converts errors as a controller does.
func translate(err error) error {
	for from, to := range map[error]error{launch.ErrInvalid: api.ErrInvalid, launch.ErrRefused: api.ErrRefused} {
		if errors.Is(err, from) {
			err = &api.Error{Text: err.Error(), Err: to}
		}
	}
	return api.ToStatus(err)
}

// Follow makes the controller name another one as the leader; "" if it knows none.
func (k *Controller) Follow(leader string) { k.leader.Store(&leader) }

// Lead makes the controller the leader.
func (k *Controller) Lead() { k.leader.Store(nil) }

// Fail makes requests fail for which a function returns an error.
func (k *Controller) Fail(fail func(method string) error) { k.fail.Store(&fail) }

// Seen returns how many requests have reached the controller.
func (k *Controller) Seen() int { return int(k.seen.Load()) }

// Kill ends the controller and all its connections.
func (k *Controller) Kill() { k.server.Stop() }

// admit returns an error unless the controller leads.
func (k *Controller) admit(ctx context.Context, method string) error {
	k.seen.Add(1)
	if fail := k.fail.Load(); fail != nil {
		if err := (*fail)(method); err != nil {
			return err
		}
	}
	if leader := k.leader.Load(); leader != nil {
		if *leader != "" {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(api.LeaderKey, *leader)) // the request fails anyway
		}
		return fmt.Errorf("%w: this controller does not lead", api.ErrUnavailable)
	}
	return nil
}

// Services returns the services of a cluster, for servers other than that of Listen.
func (c *Cluster) Services() (api.LaunchesServer, api.ClusterServer) {
	return &launches{cluster: c}, &clusterService{cluster: c}
}
