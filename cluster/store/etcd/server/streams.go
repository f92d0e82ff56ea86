package server

import (
	"context"

	"google.golang.org/grpc"
)

// streams ends watches when the server closes. etcd would wait seven seconds for their clients.
type streams struct {
	closing context.Context
}

// intercept runs a stream whose context ends with the server.
func (s streams) intercept(
	service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	return handler(service, closable{stream, ctx})
}

// closable is a stream with another context.
type closable struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context that ends with the server.
func (c closable) Context() context.Context { return c.ctx }
