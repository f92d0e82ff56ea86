package rpcerror

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Table has the sentinels of a service. Each has a code of its own.
type Table []Row

// Row is a sentinel, and its code on the wire.
type Row struct {
	Sentinel error
	Code     codes.Code
}

// Error is an error that was received from a server: its text, and one of the sentinels.
type Error struct {
	Text string
	Err  error
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// ToStatus converts an error to the gRPC error that a server returns. text returns what
// the client is told of an error of the table. A gRPC error stays as it is.
func (t Table) ToStatus(err error, text func(error) string) error {
	if err == nil {
		return nil
	}
	for _, row := range t {
		if errors.Is(err, row.Sentinel) {
			return status.Error(row.Code, text(err))
		}
	}
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}

// FromStatus is the inverse of ToStatus, for clients. An error with an unknown code keeps only its
// text.
func (t Table) FromStatus(err error) error {
	if err == nil {
		return nil
	}
	received, isStatus := status.FromError(err)
	if !isStatus {
		return err
	}
	for _, row := range t {
		if received.Code() == row.Code {
			return &Error{Text: received.Message(), Err: row.Sentinel}
		}
	}
	return errors.New(received.Message())
}
