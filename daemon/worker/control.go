package worker

import (
	"context"
	"net"
	"os"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/rpc"
)

// control answers phosd.
type control struct {
	rpc.UnimplementedWorkerServer
	worker *Worker
}

// serveControl answers on the listening socket that phosd made; it may come and go.
func (w *Worker) serveControl() error {
	file := os.NewFile(ControlFD, "control")
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	_ = file.Close() // the listener has a copy
	if unixListener, isUnix := listener.(*net.UnixListener); isUnix {
		unixListener.SetUnlinkOnClose(false)
	}
	server := grpc.NewServer(grpc.Creds(rpc.PeerCredentials{}), grpc.UnaryInterceptor(rpc.ServerErrors))
	rpc.RegisterWorkerServer(server, &control{worker: w})
	go func() { _ = server.Serve(listener) }() // for the life of the process
	return nil
}

// Describe tells how the session stands.
func (c *control) Describe(ctx context.Context, _ *rpc.DescribeRequest) (*rpc.Description, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	return c.worker.describe(), nil
}

// Stop ends the worker once the answer is on its way.
func (c *control) Stop(ctx context.Context, request *rpc.WorkerStopRequest) (*rpc.WorkerStopReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	c.worker.end(request.GetReason())
	return &rpc.WorkerStopReply{}, nil
}

// rootOnly is a second lock on the door: the socket's directory is the first.
func rootOnly(ctx context.Context) error {
	actor, err := rpc.ActorOf(ctx)
	if err != nil {
		return err
	}
	return actor.RequireRoot("control a worker")
}
