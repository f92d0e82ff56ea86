package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/words"
)

// call makes a request with the time limit. The error is that of the caller's context, or has a
// sentinel of the contract.
func (s *Store) call(ctx context.Context, request func(context.Context) error) error {
	last := new(cause)
	limited, cancel := context.WithTimeout(context.WithValue(ctx, causeKey{}, last), s.config.Timeout)
	defer cancel()
	defer context.AfterFunc(s.client.Ctx(), cancel)() // after Close the client would try again
	err := request(limited)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.meaning(err, last.text)
}

// meaning returns an error of etcd's client as one of the contract. The text explains a request
// without an answer, if there is one.
func (s *Store) meaning(err error, text string) error {
	if s.client.Ctx().Err() != nil {
		return fmt.Errorf("%w: its connection was closed", store.ErrUnavailable)
	}
	for from, to := range sentinels {
		if errors.Is(err, from) {
			return to
		}
	}
	if !unavailable(err) {
		return err
	}
	if text == "" {
		text = err.Error()
	}
	return fmt.Errorf("%w: %s", store.ErrUnavailable, words.ClipTo(text, 200))
}

// sentinels are errors of etcd with those of the contract.
var sentinels = map[error]error{
	rpctypes.ErrNoSpace:         store.ErrFull,
	rpctypes.ErrRequestTooLarge: store.ErrTooLarge,
	rpctypes.ErrCompacted:       store.ErrCompacted,
}

// unavailable reports whether the same request may be answered later. Anything else needs a change
// of the configuration: a permission, for example.
func unavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	var known rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &known) {
		code = known.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown,
		codes.ResourceExhausted, codes.Aborted:
		return true
	default:
		return false
	}
}

// cause is what gRPC said of a request without an answer. etcd's client reports only that the time
// is over, not that the socket is not there or that a certificate was refused.
type cause struct{ text string }

// causeKey is the key of a *cause in a context.
type causeKey struct{}

// noteCause returns an interceptor that fills the cause of the context.
func noteCause() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
		next grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		err := next(ctx, method, request, reply, conn, options...)
		if last, ok := ctx.Value(causeKey{}).(*cause); ok && err != nil {
			last.text = status.Convert(err).Message()
		}
		return err
	}
}
