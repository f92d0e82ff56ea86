package api

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// connectTime is how long a controller may take to connect before another one is asked. A host
// without power does not refuse a connection: it says nothing.
const connectTime = time.Second

// Reach waits for the connection to the controller at an address. If that takes long it returns an
// error, and connecting goes on. After a failure the next request says what it was; the caller
// waits between its tries, so the connection does not.
func Reach(ctx context.Context, address string, conn *grpc.ClientConn) error {
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Idle:
			conn.Connect()
		case connectivity.Connecting:
		case connectivity.TransientFailure:
			conn.ResetConnectBackoff()
			return nil
		case connectivity.Ready, connectivity.Shutdown:
			return nil
		}
		if conn.WaitForStateChange(limited, state) {
			continue
		}
		if ctx.Err() != nil {
			return status.FromContextError(ctx.Err()).Err()
		}
		return status.Error(codes.Unavailable, fmt.Sprintf("%s has not answered for %v", address, connectTime))
	}
}
