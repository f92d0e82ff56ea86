package inside

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// maxReply is the most bytes of one message: 10,000 launches in one list.
const maxReply = 64 << 20

// Server is the inner side of a gRPC server: a listener for it, and its credentials.
type Server struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewServer returns a server without connections.
func NewServer() *Server {
	return &Server{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// known is a connection of a part that knows its caller.
type known struct {
	net.Conn
	info credentials.AuthInfo
}

// Connect returns a connection for the requests of a caller. The caller of this function closes it.
func (s *Server) Connect(info credentials.AuthInfo) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///inside",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.dial(ctx, info) }))
}

// dial hands one end of a pipe to the server.
func (s *Server) dial(ctx context.Context, info credentials.AuthInfo) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case s.conns <- known{theirs, info}:
		return ours, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (s *Server) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *Server) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *Server) Addr() net.Addr { return address{} }

// address is that of a Server.
type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "inside" }

func (address) String() string { return "inside" }
