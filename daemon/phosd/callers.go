package phosd

import (
	"context"
	"path"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
)

// noteGone says in the log when a caller leaves before its request is answered: killed, cut off, or
// of its own accord. By then the request has been told, and gives up what can still be given up.
func (d *Daemon) noteGone(
	service any,
	stream grpc.ServerStream,
	info *grpc.StreamServerInfo,
	handle grpc.StreamHandler,
) error {
	a := &attended{ServerStream: stream}
	var give context.CancelCauseFunc
	// Only in this order is it certain that whoever reads the line finds the request told.
	a.ctx, give = context.WithCancelCause(context.WithValue(context.WithoutCancel(stream.Context()), attendedKey{}, a))
	defer give(nil)
	over := context.AfterFunc(stream.Context(), func() {
		give(errGivenUp)
		if !a.served.Load() {
			d.sayGone(stream.Context(), info.FullMethod)
		}
	})
	defer over()
	return handle(service, a)
}

// noteOneGone is the same for requests that have one answer.
func (d *Daemon) noteOneGone(
	ctx context.Context,
	request any,
	info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	defer context.AfterFunc(ctx, func() { d.sayGone(ctx, info.FullMethod) })()
	return handle(ctx, request)
}

func (d *Daemon) sayGone(ctx context.Context, method string) {
	if d.stopping.Err() != nil {
		return // phosd goes, and not the caller
	}
	actor, _ := api.ActorOf(ctx) // one that is unknown has no pid
	d.log.Info("the caller has gone", "request", path.Base(method), "caller", actor.PID, "uid", actor.UID)
}

// attended is a request with somebody who waits for its answer.
type attended struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream is its context's
	// served: the caller has all that it wanted, and may go.
	served atomic.Bool
}

type attendedKey struct{}

// Context is done when the request is over, or nobody waits for it.
func (a *attended) Context() context.Context { return a.ctx }

// mayGo says that a caller has been told all that it wanted, though the request goes on.
func mayGo(ctx context.Context) {
	if a, is := ctx.Value(attendedKey{}).(*attended); is {
		a.served.Store(true)
	}
}
