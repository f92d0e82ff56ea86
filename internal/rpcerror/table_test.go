package rpcerror

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

var (
	errGone  = errors.New("gone")
	errWrong = errors.New("wrong")
)

var table = Table{{errGone, codes.NotFound}, {errWrong, codes.InvalidArgument}, {context.Canceled, codes.Canceled}}

// failing is a service that answers every call with an error.
type failing struct {
	grpc_health_v1.UnimplementedHealthServer
	err error
}

func (f *failing) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return nil, table.ToStatus(f.err, error.Error)
}

// TestOverTheWire sends errors through a real server.
func TestOverTheWire(t *testing.T) {
	service := &failing{}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for _, c := range []struct {
		sent     error
		sentinel error
		text     string
	}{
		{fmt.Errorf("job 7: %w", errGone), errGone, "job 7: gone"},
		{errors.Join(errors.New("two"), errWrong), errWrong, "two\nwrong"},
		{fmt.Errorf("save: %w", context.Canceled), context.Canceled, "save: context canceled"},
		{errors.New("no sentinel"), nil, "no sentinel"},
		{status.Error(codes.NotFound, "a code already"), errGone, "a code already"},
		{status.Error(codes.DataLoss, "a code without a sentinel"), nil, "a code without a sentinel"},
	} {
		service.err = c.sent
		_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		got := table.FromStatus(err)
		if got == nil || got.Error() != c.text {
			t.Errorf("%v came as %v", c.sent, got)
		}
		for _, row := range table {
			want := c.sentinel != nil && errors.Is(c.sentinel, row.Sentinel)
			if errors.Is(got, row.Sentinel) != want {
				t.Errorf("whether what came of %v is %v: %v", c.sent, row.Sentinel, !want)
			}
		}
	}
}

// TestTextForClients: the server chooses what clients are told of an error of the table.
func TestTextForClients(t *testing.T) {
	short := func(err error) string { return strings.TrimPrefix(err.Error(), "wrong: ") }
	if got := table.FromStatus(table.ToStatus(fmt.Errorf("%w: no name", errWrong), short)); got.Error() != "no name" {
		t.Errorf("it came as %v", got)
	}
}

// TestNothing: no error stays none, and what is no gRPC error stays as it is.
func TestNothing(t *testing.T) {
	if err := table.ToStatus(nil, error.Error); err != nil {
		t.Errorf("no error became %v", err)
	}
	if err := table.FromStatus(nil); err != nil {
		t.Errorf("no error came as %v", err)
	}
	if err := table.FromStatus(net.ErrClosed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an error of the connection came as %v", err)
	}
}
