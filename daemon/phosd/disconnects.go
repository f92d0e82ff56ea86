package phosd

import (
	"context"
	"path"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints"
)

// watchStream logs when a caller disconnects before its request is answered. The request has been
// cancelled by then, and reverts what can still be reverted.
func (d *Daemon) watchStream(
	service any,
	stream grpc.ServerStream,
	info *grpc.StreamServerInfo,
	handle grpc.StreamHandler,
) error {
	w := &watchedStream{ServerStream: stream}
	var cancel context.CancelCauseFunc
	// The request's context is detached from the stream's, so that it is cancelled before the line is
	// logged: a reader of the line can rely on it.
	w.ctx, cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(stream.Context()), watchedKey{}, w))
	defer cancel(nil)
	stop := context.AfterFunc(stream.Context(), func() {
		cancel(checkpoints.ErrCanceled)
		if !w.answered.Load() {
			d.logDisconnect(stream.Context(), info.FullMethod)
		}
	})
	defer stop()
	return handle(service, w)
}

// watchUnary is watchStream for requests with a single answer.
func (d *Daemon) watchUnary(
	ctx context.Context,
	request any,
	info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	defer context.AfterFunc(ctx, func() { d.logDisconnect(ctx, info.FullMethod) })()
	return handle(ctx, request)
}

// logDisconnect logs that a caller disconnected before the answer, unless phosd itself is ending.
func (d *Daemon) logDisconnect(ctx context.Context, method string) {
	if d.life.Err() != nil {
		return // phosd closes the connection, not the caller
	}
	caller, _ := api.CallerOf(ctx) // an unknown caller has no pid
	d.log.Info("caller disconnected", "request", path.Base(method), "caller", caller.Process.PID, "uid", caller.UID)
}

// watchedStream is a request whose caller waits for answers.
type watchedStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream is its context's
	// answered means that the caller has everything, and may disconnect.
	answered atomic.Bool
}

type watchedKey struct{}

// Context ends with the request, or when the caller disconnects.
func (w *watchedStream) Context() context.Context { return w.ctx }

// setAnswered notes that the caller has got everything that it waits for, although the request goes
// on.
func setAnswered(ctx context.Context) {
	if w, ok := ctx.Value(watchedKey{}).(*watchedStream); ok {
		w.answered.Store(true)
	}
}
