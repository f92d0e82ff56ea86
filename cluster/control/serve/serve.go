package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/store"
)

// Parts are what the services need beside the controller.
type Parts struct {
	Callers Callers
	People  People
	Joins   Joins
	Code    *code.Copies
	Logs    *logs.Store
	// Controllers knows the other controllers.
	Controllers Controllers
}

// Services are the services of a controller, for gRPC and for gateways.
type Services struct {
	Launches api.LaunchesServer
	Cluster  api.ClusterServer
	Agents   api.AgentsServer
}

// New returns the services of a controller.
func New(c *control.Controller, p Parts) Services {
	return Services{
		Launches: &launches{front: front{c, p.Callers}, code: p.Code, logs: p.Logs},
		Cluster:  &clusterService{front: front{c, p.Callers}, people: p.People, controllers: p.Controllers},
		Agents: &agents{
			front: front{c, p.Callers}, code: p.Code, logs: p.Logs, joins: p.Joins, controllers: p.Controllers,
		},
	}
}

// Register adds the services to a gRPC server. Agents are served only where nodes can come from.
func (s Services) Register(server *grpc.Server, withAgents bool) {
	api.RegisterLaunchesServer(server, s.Launches)
	api.RegisterClusterServer(server, s.Cluster)
	if withAgents {
		api.RegisterAgentsServer(server, s.Agents)
	}
}

// maxMessage is the most bytes of one message.
const maxMessage = 4 << 20

// maxStreams is how many requests one connection may have at once.
const maxStreams = 1000

// ServerOptions returns what each gRPC server of a controller is made with.
func ServerOptions(log *slog.Logger) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: api.KeepAlive / 2, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 3 * api.KeepAlive, Timeout: api.KeepAlive}),
		grpc.ChainUnaryInterceptor(func(
			ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
		) (reply any, err error) {
			defer func() { err = finish(ctx, log, info.FullMethod, recover(), err) }()
			return handle(ctx, request)
		}),
		grpc.ChainStreamInterceptor(func(
			server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
		) (err error) {
			defer func() { err = finish(stream.Context(), log, info.FullMethod, recover(), err) }()
			return handle(server, stream)
		}),
	}
}

// finish converts the error of a request. A panic fails only that request.
func finish(ctx context.Context, log *slog.Logger, method string, fault any, err error) error {
	if fault != nil {
		log.Error("panic in a request", "method", method, "fault", fault)
		return api.ToStatus(fmt.Errorf("%s: the controller has a defect; its log says which", method))
	}
	var other *control.NotLeaderError
	if errors.As(err, &other) { // empty if none leads: nothing was done
		// It fails only if the stream has ended.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(api.LeaderKey, other.Leader))
	}
	return api.ToStatus(Translate(err))
}

// translations say what errors of the parts are to callers.
var translations = []struct{ from, to error }{
	{launch.ErrInvalid, api.ErrInvalid},
	{launch.ErrRefused, api.ErrRefused},
	{control.ErrNoLaunch, api.ErrNotFound},
	{control.ErrNeverFits, api.ErrRefused},
	{control.ErrOverQuota, api.ErrRefused},
	{control.ErrTooLarge, api.ErrTooLarge},
	{control.ErrNodeUnknown, api.ErrNotPermitted},
	{control.ErrNotLeading, api.ErrUnavailable},
	{session.ErrNodeSilent, api.ErrUnavailable},
	{identity.ErrForbidden, api.ErrNotPermitted},
	{identity.ErrRootAccount, api.ErrNotPermitted},
	{store.ErrUnavailable, api.ErrUnavailable},
	{store.ErrFull, api.ErrUnavailable},
	{store.ErrDeposed, api.ErrUnavailable},
}

// Translate returns an error that callers know.
func Translate(err error) error {
	var other *control.NotLeaderError
	if errors.As(err, &other) {
		return &api.Error{Text: err.Error(), Err: api.ErrUnavailable}
	}
	for _, row := range translations {
		if errors.Is(err, row.from) {
			return &api.Error{Text: err.Error(), Err: row.to}
		}
	}
	return err
}
