package api

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// reader is a stream from a controller. It is opened with the first message that is read, when the
// request is known; until a message has come, it is opened again at another controller.
type reader struct {
	ctx         context.Context
	router      *router
	description *grpc.StreamDesc
	method      string
	options     []grpc.CallOption
	request     any
	stream      grpc.ClientStream
}

// SendMsg keeps the request.
func (s *reader) SendMsg(request any) error {
	s.request = request
	return nil
}

// CloseSend does nothing: the request is the only message.
func (s *reader) CloseSend() error { return nil }

// RecvMsg reads the next message.
func (s *reader) RecvMsg(message any) error {
	if s.stream != nil {
		return fromStream(s.stream.RecvMsg(message))
	}
	var end error
	err := s.router.seek(s.ctx, mayRepeat(s.method, s.request),
		func(ctx context.Context, conn *grpc.ClientConn, a *attempt) (err error) {
			end, err = s.open(ctx, conn, a, message)
			return err
		})
	if err != nil {
		return err
	}
	return end
}

// open opens the stream and reads its first message. The end of a stream without messages is no
// error.
func (s *reader) open(ctx context.Context, conn *grpc.ClientConn, a *attempt, message any) (end, err error) {
	stream, err := conn.NewStream(ctx, s.description, s.method, s.options...)
	if err != nil {
		return nil, err
	}
	// An error of these is io.EOF, and RecvMsg has the reason.
	_ = stream.SendMsg(s.request)
	_ = stream.CloseSend()
	if err = stream.RecvMsg(message); err != nil && !errors.Is(err, io.EOF) {
		a.trailer = stream.Trailer()
		return nil, err
	}
	s.stream = stream
	return err, nil
}

// Header returns what the controller has sent first; nothing before the first message.
func (s *reader) Header() (metadata.MD, error) {
	if s.stream == nil {
		return nil, nil
	}
	return s.stream.Header()
}

// Trailer returns what the controller has sent last.
func (s *reader) Trailer() metadata.MD {
	if s.stream == nil {
		return nil
	}
	return s.stream.Trailer()
}

// Context returns the context of the stream.
func (s *reader) Context() context.Context { return s.ctx }

// writer is a stream to a controller, with errors as callers know them.
type writer struct{ grpc.ClientStream }

// RecvMsg reads the answer.
func (s *writer) RecvMsg(message any) error { return fromStream(s.ClientStream.RecvMsg(message)) }

// SendMsg sends a message. The error is io.EOF if the stream has ended; RecvMsg has the reason.
func (s *writer) SendMsg(message any) error { return fromStream(s.ClientStream.SendMsg(message)) }

// fromStream converts an error of a stream, whose end stays io.EOF.
func fromStream(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return FromStatus(err)
}
