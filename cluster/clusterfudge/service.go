package clusterfudge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/archive"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// Inside connects to the services of package api as a caller.
type Inside interface {
	Connect(caller credentials.AuthInfo) (*grpc.ClientConn, error)
}

// Service is the service of package wire.
type Service struct {
	wire.UnimplementedLaunchesServer
	inside Inside
}

// NewService returns the service.
func NewService(inside Inside) *Service { return &Service{inside: inside} }

// maxMessage is the most bytes of a request: a zip file, and what is beside it.
const maxMessage = archive.MaxZip + 4<<20

// ServerOptions returns what a gRPC server of the service is made with, beside its credentials.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(100), grpc.UnknownServiceHandler(unknown),
		grpc.ChainUnaryInterceptor(func(
			ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
		) (any, error) {
			reply, err := handle(ctx, request)
			return reply, wireError(err)
		}),
	}
}

// Register adds the service to a gRPC server.
func (s *Service) Register(server *grpc.Server) { wire.RegisterLaunchesServer(server, s) }

// client makes requests as the caller of a request.
type client struct {
	launches api.LaunchesClient
	cluster  api.ClusterClient
}

// as calls a function with a client that is the caller of a request.
func as[Reply any](ctx context.Context, s *Service, ask func(client) (Reply, error)) (Reply, error) {
	var none Reply
	from, ok := peer.FromContext(ctx)
	if !ok {
		return none, api.ErrUnknownCaller
	}
	conn, err := s.inside.Connect(from.AuthInfo)
	if err != nil {
		return none, err
	}
	defer conn.Close()
	return ask(client{api.NewLaunchesClient(conn), api.NewClusterClient(conn)})
}

// wireError returns an error as the client gets it. Those of the services are statuses already.
func wireError(err error) error {
	switch {
	case errors.Is(err, launch.ErrInvalid), errors.Is(err, archive.ErrZip):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return api.ToStatus(err)
}

// lacking returns the error for what phos does not have.
func lacking(what, instead string) error {
	return status.Errorf(codes.Unimplemented, "phos has no %s; %s", what, instead)
}

// services says what the other services of the client are for.
var services = []struct{ name, what, instead string }{
	{"Slurm", "view of a Slurm cluster", "ask Slurm itself (squeue, scancel, sbatch)"},
	{"Sandboxes", "sandboxes", "launch the program as a process of a launch"},
	{"Tunnel", "tunnels to processes", "let the process listen on a port of its node"},
	{"Exec", "commands to single nodes", "name the node in a launch's hostnames"},
	{"Fudgelet", "agents of another make", "start phos-agent on the node (pos_cli --start --target agent)"},
}

// unknown answers the methods of services that phos does not have.
func unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	for _, each := range services {
		if strings.HasPrefix(method, "/clusterfudge."+each.name+"/") {
			return lacking(each.what, each.instead)
		}
	}
	return status.Errorf(codes.Unimplemented, "phos has no method %.100q at this address", method)
}

// LaunchJupyterNotebook is refused.
func (s *Service) LaunchJupyterNotebook(
	context.Context, *wire.LaunchJupyterNotebookRequest,
) (*wire.LaunchJupyterNotebookResponse, error) {
	return nil, errJupyter
}

var (
	errJupyter = lacking("Jupyter notebooks of its own",
		"launch jupyter as a process, which listens on a port of its node")
	errWorkstation = lacking("workstations", "launch the program that is wanted; its node is shown with the launch")
)

// LaunchWorkstation is refused.
func (s *Service) LaunchWorkstation(
	context.Context, *wire.LaunchWorkstationRequest,
) (*wire.LaunchWorkstationResponse, error) {
	return nil, errWorkstation
}

// DownloadZip is refused: zip files are converted when they come, and not kept.
func (s *Service) DownloadZip(context.Context, *wire.DownloadZipRequest) (*wire.DownloadZipResponse, error) {
	return nil, lacking("copies of zip files", "the launch's processes find its content in their working directories")
}

// StopLaunch ends a launch.
func (s *Service) StopLaunch(ctx context.Context, r *wire.StopLaunchRequest) (*wire.StopLaunchResponse, error) {
	return as(ctx, s, func(c client) (*wire.StopLaunchResponse, error) {
		_, err := c.launches.Stop(ctx, &api.ActRequest{Id: r.GetId()})
		return &wire.StopLaunchResponse{}, err
	})
}

// RerunLaunch creates a launch with the description of one that has ended.
func (s *Service) RerunLaunch(ctx context.Context, r *wire.RerunLaunchRequest) (*wire.RerunLaunchResponse, error) {
	return as(ctx, s, func(c client) (*wire.RerunLaunchResponse, error) {
		reply, err := c.launches.Rerun(ctx, &api.ActRequest{Id: r.GetLaunchId()})
		if err != nil {
			return nil, err
		}
		created, err := c.placed(ctx, reply.GetLaunches())
		return &wire.RerunLaunchResponse{Launch: created}, err
	})
}

// GetLaunch returns a launch.
func (s *Service) GetLaunch(ctx context.Context, r *wire.GetLaunchRequest) (*wire.Launch, error) {
	return as(ctx, s, func(c client) (*wire.Launch, error) { return c.get(ctx, r.GetId()) })
}

// Bounds of a page of launches.
const (
	usualPage = 50
	maxPage   = 100
)

// ListLaunches returns a page of launches, the newest first. Pages are counted from 1.
func (s *Service) ListLaunches(ctx context.Context, r *wire.ListLaunchesRequest) (*wire.ListLaunchesResponse, error) {
	number, limit := int(r.GetPage().GetPageNumber().GetValue()), int(r.GetPage().GetLimit().GetValue())
	if number < 0 || limit < 0 {
		return nil, api.Invalid(fmt.Sprintf("page %d of %d launches: want numbers from 1", number, limit))
	}
	if limit == 0 {
		limit = usualPage
	}
	return as(ctx, s, func(c client) (*wire.ListLaunchesResponse, error) {
		return c.list(ctx, max(0, number-1), min(limit, maxPage))
	})
}
