package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What can be wrong with a request. Both sides use errors.Is with these; on the wire each is one
// gRPC code.
var (
	// ErrNoDaemon means that nothing answers at the socket.
	ErrNoDaemon = errors.New("no phosd answers")
	// ErrMute means that somebody has the socket and says nothing.
	ErrMute = errors.New("phosd does not answer: it is stopped or stuck, and its log may say why; programs run on")
	// ErrNotPermitted means that the program belongs to another user, or that only root may do this.
	ErrNotPermitted = errors.New("not permitted")
	// ErrNoProgram means that no program with this pid runs through this phosd, as far as the caller
	// may know.
	ErrNoProgram = errors.New("no such program")
	// ErrProgramsRunning means that programs stand in the way.
	ErrProgramsRunning = errors.New("programs are running")
	// ErrInvalid means that the request itself makes no sense.
	ErrInvalid = errors.New("invalid request")
	// ErrExhausted means that a quota or a resource is used up.
	ErrExhausted = errors.New("resources exhausted")
	// ErrNotBuilt means that this version cannot do it.
	ErrNotBuilt = errors.New("not built yet")
)

// codeTable is the one place where sentinels and gRPC codes meet.
var codeTable = []struct {
	err  error
	code codes.Code
}{
	{ErrNoDaemon, codes.Unavailable},
	{ErrNotPermitted, codes.PermissionDenied},
	{ErrNoProgram, codes.NotFound},
	{ErrProgramsRunning, codes.FailedPrecondition},
	{ErrInvalid, codes.InvalidArgument},
	{ErrExhausted, codes.ResourceExhausted},
	{ErrNotBuilt, codes.Unimplemented},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// Error is an error that came over the wire: the server's words, and one of the sentinels in its
// chain.
type Error struct {
	Text string
	Err  error
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Err }

// ToStatus makes the gRPC error that a server returns.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range codeTable {
		if errors.Is(err, row.err) {
			return status.Error(row.code, wordsOf(err))
		}
	}
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}

// wordsOf is what a person is told: that a request is invalid is said by what is wrong with it.
func wordsOf(err error) string {
	if !errors.Is(err, ErrInvalid) {
		return err.Error()
	}
	return strings.Replace(err.Error(), ErrInvalid.Error()+": ", "", 1)
}

// FromStatus is the inverse, on the client's side. What is no known code stays as it is.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	received, isStatus := status.FromError(err)
	if !isStatus {
		return err
	}
	for _, row := range codeTable {
		if received.Code() == row.code {
			return &Error{Text: received.Message(), Err: row.err}
		}
	}
	return errors.New(received.Message())
}

// ServerErrors is the interceptor that lets handlers return plain errors. A panic in a handler
// fails that request only.
func ServerErrors(
	ctx context.Context,
	request any,
	_ *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (reply any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			reply, err = nil, status.Error(codes.Internal, fmt.Sprintf("phosd: panic in a request: %v", fault))
		}
	}()
	reply, err = handle(ctx, request)
	return reply, ToStatus(err)
}

// ServerStreamErrors is the same for streams.
func ServerStreamErrors(
	service any,
	stream grpc.ServerStream,
	_ *grpc.StreamServerInfo,
	handle grpc.StreamHandler,
) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = status.Error(codes.Internal, fmt.Sprintf("phosd: panic in a request: %v", fault))
		}
	}()
	return ToStatus(handle(service, stream))
}

func clientErrors(
	ctx context.Context,
	method string,
	request, reply any,
	conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	return FromStatus(invoke(ctx, method, request, reply, conn, options...))
}
