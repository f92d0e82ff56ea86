package api

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// codeTable maps errors to gRPC codes and back.
var codeTable = []struct {
	err  error
	code codes.Code
}{
	{ErrNotPermitted, codes.PermissionDenied},
	{ErrUnknownCaller, codes.Unauthenticated},
	{ErrNotFound, codes.NotFound},
	{ErrInvalid, codes.InvalidArgument},
	{ErrRefused, codes.FailedPrecondition},
	{ErrUnavailable, codes.Unavailable},
	{ErrTooLarge, codes.ResourceExhausted},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// Error is an error that was received: its text, and one of the sentinels.
type Error struct {
	Text string
	Err  error
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Invalid returns an ErrInvalid whose text says only what is wrong.
func Invalid(text string) error { return &Error{Text: text, Err: ErrInvalid} }

// ToStatus converts an error to the gRPC error that a server returns.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range codeTable {
		if errors.Is(err, row.err) {
			return status.Error(row.code, err.Error())
		}
	}
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}

// FromStatus is the inverse of ToStatus, for clients.
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
