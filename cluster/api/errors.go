package api

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/phos-gpu/phos/internal/rpcerror"
)

// Errors of requests. Both sides use errors.Is with them; on the wire each is one gRPC code.
var (
	// ErrNotPermitted means that the caller may not do this.
	ErrNotPermitted = errors.New("not permitted")
	// ErrUnknownCaller means that nothing proves which user or node makes the request.
	ErrUnknownCaller = errors.New("the cluster does not know you")
	// ErrNotFound means that there is no such launch, node or user, or that it is hidden from the
	// caller.
	ErrNotFound = errors.New("not found")
	// ErrInvalid means that the request itself is wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrRefused means that the state of what is named does not allow it now.
	ErrRefused = errors.New("refused")
	// ErrUnavailable means that no controller can answer now.
	ErrUnavailable = errors.New("no controller answers")
	// ErrTooLarge means that the request is too large.
	ErrTooLarge = errors.New("too large")
)

// codeTable maps sentinel errors to gRPC codes and back.
var codeTable = rpcerror.Table{
	{Sentinel: ErrNotPermitted, Code: codes.PermissionDenied},
	{Sentinel: ErrUnknownCaller, Code: codes.Unauthenticated},
	{Sentinel: ErrNotFound, Code: codes.NotFound},
	{Sentinel: ErrInvalid, Code: codes.InvalidArgument},
	{Sentinel: ErrRefused, Code: codes.FailedPrecondition},
	{Sentinel: ErrUnavailable, Code: codes.Unavailable},
	{Sentinel: ErrTooLarge, Code: codes.ResourceExhausted},
	{Sentinel: context.DeadlineExceeded, Code: codes.DeadlineExceeded},
	{Sentinel: context.Canceled, Code: codes.Canceled},
}

// Error is an error that was received from a server: its text, and one of the sentinels.
type Error = rpcerror.Error

// Invalid returns an ErrInvalid whose text says only what is wrong.
func Invalid(text string) error { return &Error{Text: text, Err: ErrInvalid} }

// ToStatus converts an error to the gRPC error that a server returns.
func ToStatus(err error) error { return codeTable.ToStatus(err, error.Error) }

// FromStatus is the inverse of ToStatus, for clients.
func FromStatus(err error) error { return codeTable.FromStatus(err) }
