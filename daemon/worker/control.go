package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/worker/borrower"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
)

// Limits on the files that phosd may have handed off at a time. Most are the packs of an image.
const (
	maxTokenFiles = 4096
	maxTokens     = 4
)

// control serves the requests of phosd.
type control struct {
	api.UnimplementedWorkerServer
	worker *Worker
}

// serveControl serves gRPC on the listening socket that phosd made. phosd may disconnect and
// connect again.
func (w *Worker) serveControl() error {
	file := w.files.control
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	_ = file.Close() // the listener has a copy
	socket, isUnix := listener.(*net.UnixListener)
	if !isUnix {
		return fmt.Errorf("%w: the control socket is not a unix socket", api.ErrInvalid)
	}
	socket.SetUnlinkOnClose(false)
	return w.serveOn(socket)
}

// serveOn serves gRPC and file tokens on the socket.
func (w *Worker) serveOn(socket *net.UnixListener) error {
	listener, err := fdtoken.NewListener(socket, w.tokens, w.log)
	if err != nil {
		return err
	}
	w.server = grpc.NewServer(grpc.Creds(api.PeerCredentials{}), grpc.UnaryInterceptor(api.ServerErrors))
	api.RegisterWorkerServer(w.server, &control{worker: w})
	go func() { _ = w.server.Serve(listener) }() // for the life of the process
	return nil
}

// Describe returns the status of the session.
func (c *control) Describe(ctx context.Context, _ *api.DescribeRequest) (*api.Description, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	return c.worker.describe(), nil
}

// Stop ends the session; the worker exits after the answer.
func (c *control) Stop(ctx context.Context, request *api.WorkerStopRequest) (*api.WorkerStopReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	c.worker.end(request.GetReason())
	return &api.WorkerStopReply{}, nil
}

// Lend asks phosd for files of the program's memory that the worker may not open itself.
func (c *control) Lend(stream grpc.BidiStreamingServer[api.Loan, api.Want]) error {
	caller, err := api.CallerOf(stream.Context())
	if err == nil {
		err = caller.RequireRoot("lend to a worker")
	}
	if err != nil {
		return api.ToStatus(err)
	}
	w := c.worker
	take := func(token []byte) ([]*os.File, error) { return w.tokens.Take(token, caller) }
	return api.ToStatus(w.borrower.Serve(stream, take, w.over))
}

// Track says where the program's userfaultfd is.
func (c *control) Track(ctx context.Context, request *api.TrackRequest) (*api.TrackReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	number, err := c.worker.tracker.Load().Switch(request.GetOn(), request.GetOrder())
	return &api.TrackReply{Userfaultfd: uint32(number)}, err
}

// UseLog puts a file that phosd has handed off in the place of the log, the standard error. A file
// that log_path names is the program's and stays.
func (c *control) UseLog(ctx context.Context, request *api.UseLogRequest) (*api.UseLogReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	file, err := c.takeFile(ctx, request.GetFiles())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := unix.Dup3(int(file.Fd()), unix.Stderr, 0); err != nil {
		return nil, fmt.Errorf("use another log: %w", err)
	}
	return &api.UseLogReply{}, nil
}

// borrow asks phosd to open the files behind a range of the program's memory.
func (w *Worker) borrow(address, bytes uint64) ([]mirror.Part, error) {
	parts, err := w.borrower.Borrow(address, bytes)
	if errors.Is(err, borrower.ErrNoLender) {
		w.log.Warn(
			"registered memory is not accessible to kernels",
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

// rootOnly returns an error unless the caller is root. It is a second barrier: only root can search
// the socket's directory.
func rootOnly(ctx context.Context) error {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return err
	}
	return caller.RequireRoot("control a worker")
}
