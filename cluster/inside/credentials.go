package inside

import (
	"net"

	"google.golang.org/grpc/credentials"
)

// Divert takes connections away from a gRPC server once their callers are known. It reports whether
// it has taken one.
type Divert func(conn net.Conn, info credentials.AuthInfo) bool

// Credentials returns those of a gRPC server that serves this Server beside others. Connections
// from outside make the handshake of outer; divert, which may be nil, is offered each of them.
func (s *Server) Credentials(outer credentials.TransportCredentials, divert Divert) credentials.TransportCredentials {
	return &both{outer, divert}
}

// both are the credentials of a server with connections from inside and from outside.
type both struct {
	credentials.TransportCredentials
	divert Divert
}

// ServerHandshake implements credentials.TransportCredentials.
func (b *both) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if k, ok := conn.(known); ok {
		return k.Conn, k.info, nil
	}
	made, info, err := b.TransportCredentials.ServerHandshake(conn)
	if err == nil && b.divert != nil && b.divert(made, info) {
		return nil, nil, credentials.ErrConnDispatched
	}
	return made, info, err
}

// Clone implements credentials.TransportCredentials.
func (b *both) Clone() credentials.TransportCredentials {
	return &both{b.TransportCredentials.Clone(), b.divert}
}
