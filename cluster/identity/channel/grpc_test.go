package channel

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestGRPC uses the settings as controllers and nodes will: gRPC changes copies of them.
func TestGRPC(t *testing.T) {
	ca := newCA(t, cluster)
	known := make(chan identity.Caller, 1)
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(Server(NewHolder(controller(t, ca), bundle(t, ca)), at(now)))),
		grpc.UnaryInterceptor(tell(known)),
	)
	defer server.Stop()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(listener) }()
	for _, test := range []struct {
		name  string
		trust authority.Bundle
		says  string
	}{
		{"its cluster", bundle(t, ca), ""},
		{"another one", bundle(t, newCA(t, cluster)), "of another cluster"},
	} {
		client := Client(NewHolder(node(t, ca, "gpu1"), test.trust), at(now))
		conn := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client))))(t)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		defer cancel()
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", test.name, err, test.says)
		}
		if err == nil {
			if c := <-known; c.String() != "node gpu1" {
				t.Errorf("the caller is %v", c)
			}
		}
	}
}

// tell sends the caller of each request to a channel.
func tell(known chan<- identity.Caller) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		c, err := callerOf(ctx)
		if err != nil {
			return nil, err
		}
		known <- c
		return next(ctx, request)
	}
}

// callerOf returns the caller of a request, as a controller finds it.
func callerOf(ctx context.Context) (identity.Caller, error) {
	from, _ := peer.FromContext(ctx)
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return identity.Caller{}, identity.ErrUnverified
	}
	return OfConnection(cluster, info.State)
}
