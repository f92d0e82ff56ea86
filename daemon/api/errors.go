package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/internal/rpcerror"
)

// Sentinel errors of requests. Both sides use errors.Is with them; on the wire each is one gRPC
// code.
var (
	// ErrNoDaemon is returned when no phosd answers at the socket.
	ErrNoDaemon = errors.New("no phosd answers")
	// ErrNoAnswer is returned when the socket accepts connections but does not answer.
	ErrNoAnswer = errors.New("phosd does not answer: it is stopped or stuck, and its log may say why; programs run on")
	// ErrNotPermitted is returned when the program belongs to another user, or only root may do this.
	ErrNotPermitted = errors.New("not permitted")
	// ErrNoProgram is returned when this phosd serves no program with this pid that the caller may
	// see.
	ErrNoProgram = errors.New("no such program")
	// ErrProgramsRunning is returned when running programs prevent the request.
	ErrProgramsRunning = errors.New("programs are running")
	// ErrInvalid is returned when the request itself is invalid.
	ErrInvalid = errors.New("invalid request")
	// ErrExhausted is returned when a quota or a resource is exhausted.
	ErrExhausted = errors.New("resources exhausted")
	// ErrNotBuilt is returned when this version does not implement the request.
	ErrNotBuilt = errors.New("not built yet")
)

// codeTable maps sentinel errors to gRPC codes and back.
var codeTable = rpcerror.Table{
	{Sentinel: ErrNoDaemon, Code: codes.Unavailable},
	{Sentinel: ErrNotPermitted, Code: codes.PermissionDenied},
	{Sentinel: ErrNoProgram, Code: codes.NotFound},
	{Sentinel: ErrProgramsRunning, Code: codes.FailedPrecondition},
	{Sentinel: ErrInvalid, Code: codes.InvalidArgument},
	{Sentinel: ErrExhausted, Code: codes.ResourceExhausted},
	{Sentinel: ErrNotBuilt, Code: codes.Unimplemented},
	{Sentinel: context.DeadlineExceeded, Code: codes.DeadlineExceeded},
	{Sentinel: context.Canceled, Code: codes.Canceled},
}

// Error is an error that was received from a server: its text, and one of the sentinels.
type Error = rpcerror.Error

// ToStatus converts an error to the gRPC error that a server returns.
func ToStatus(err error) error { return codeTable.ToStatus(err, Text) }

// Text returns the error's text for users. It omits "invalid request", because the rest says what
// is wrong.
func Text(err error) string {
	if !errors.Is(err, ErrInvalid) {
		return err.Error()
	}
	return strings.Replace(err.Error(), ErrInvalid.Error()+": ", "", 1)
}

// FromStatus is the inverse of ToStatus, for clients.
func FromStatus(err error) error { return codeTable.FromStatus(err) }

// ServerErrors is a server interceptor: it converts the errors that handlers return. A panic in a
// handler fails only that request.
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

// ServerStreamErrors is ServerErrors for streams.
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

// clientErrors is a client interceptor that converts errors with FromStatus. grpc gives it its
// parameters.
var clientErrors grpc.UnaryClientInterceptor = func(ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	return FromStatus(invoke(ctx, method, request, reply, conn, options...))
}
