package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/worker/borrower"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
)

// What phosd may hand over at a time: the packs of an image, above all.
const (
	handedFiles  = 4096
	handedTokens = 4
)

// control answers phosd.
type control struct {
	api.UnimplementedWorkerServer
	worker *Worker
}

// serveControl answers on the listening socket that phosd made; it may come and go.
func (w *Worker) serveControl() error {
	file := w.files.control
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	_ = file.Close() // the listener has a copy
	socket, isUnix := listener.(*net.UnixListener)
	if !isUnix {
		return fmt.Errorf("%w: the control socket is no unix socket", api.ErrInvalid)
	}
	socket.SetUnlinkOnClose(false)
	return w.serveOn(socket)
}

func (w *Worker) serveOn(socket *net.UnixListener) error {
	listener, err := fdtoken.NewListener(socket, w.desk, w.log)
	if err != nil {
		return err
	}
	w.server = grpc.NewServer(grpc.Creds(api.PeerCredentials{}), grpc.UnaryInterceptor(api.ServerErrors))
	api.RegisterWorkerServer(w.server, &control{worker: w})
	go func() { _ = w.server.Serve(listener) }() // for the life of the process
	return nil
}

// Describe tells how the session stands.
func (c *control) Describe(ctx context.Context, _ *api.DescribeRequest) (*api.Description, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	return c.worker.describe(), nil
}

// Stop ends the worker once the answer is on its way.
func (c *control) Stop(ctx context.Context, request *api.WorkerStopRequest) (*api.WorkerStopReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	c.worker.end(request.GetReason())
	return &api.WorkerStopReply{}, nil
}

// Lend tells phosd what the worker may not open itself of its program's memory.
func (c *control) Lend(stream grpc.BidiStreamingServer[api.Loan, api.Want]) error {
	actor, err := api.ActorOf(stream.Context())
	if err == nil {
		err = actor.RequireRoot("lend to a worker")
	}
	if err != nil {
		return api.ToStatus(err)
	}
	w := c.worker
	take := func(token []byte) ([]*os.File, error) { return w.desk.Take(token, actor) }
	return api.ToStatus(w.borrower.Serve(stream, take, w.over))
}

// borrow has phosd open what the program has mapped.
func (w *Worker) borrow(address, bytes uint64) ([]mirror.Part, error) {
	parts, err := w.borrower.Borrow(address, bytes)
	if errors.Is(err, borrower.ErrNoLender) {
		w.log.Warn(
			"memory that the program registers stays out of kernels' reach",
			"address",
			address,
			"bytes",
			bytes,
			"error",
			err,
		)
	}
	return parts, err
}

// rootOnly is a second lock on the door: the socket's directory is the first.
func rootOnly(ctx context.Context) error {
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return err
	}
	return actor.RequireRoot("control a worker")
}
