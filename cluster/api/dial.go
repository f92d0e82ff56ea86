package api

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// maxReply is the most bytes of one message from a controller: 10,000 launches in one list.
const maxReply = 64 << 20

// dial returns the connection to a controller. It connects with the first request.
func dial(address string, to Endpoints) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithStatsHandler(sentWatch{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: KeepAlive, Timeout: KeepAlive}),
	}
	if isSocket(address) {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
		return grpc.NewClient("unix:"+address, options...)
	}
	if to.TLS == nil {
		return nil, fmt.Errorf("%w: %s is on the network, and there is no token for it", ErrUnknownCaller, address)
	}
	options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(to.TLS)))
	if to.Bearer != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(to.Bearer)))
	}
	// Proxies of the environment are meant for browsers.
	return grpc.NewClient("passthrough:"+address, append(options, grpc.WithNoProxy())...)
}

// bearer is the value of the Authorization header of each request.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: a token is sent over TLS only.
func (bearer) RequireTransportSecurity() bool { return true }
