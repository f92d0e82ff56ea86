package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// Of returns the caller of a request: by the socket of a process of this machine, by a certificate,
// or by a user's token.
func (m *Members) Of(ctx context.Context) (identity.Caller, error) {
	from, _ := grpcpeer.FromContext(ctx)
	if from == nil {
		return identity.Caller{}, api.ErrUnknownCaller
	}
	switch info := from.AuthInfo.(type) {
	case localInfo:
		return info.caller, info.err
	case credentials.TLSInfo:
		if len(info.State.VerifiedChains) > 0 {
			return channel.OfConnection(m.id, info.State)
		}
		return m.ofToken(ctx)
	}
	return identity.Caller{}, api.ErrUnknownCaller
}

// ofToken returns the caller that a request's token stands for.
func (m *Members) ofToken(ctx context.Context) (identity.Caller, error) {
	unknown := func(text string) (identity.Caller, error) {
		return identity.Caller{}, &api.Error{Text: text, Err: api.ErrUnknownCaller}
	}
	headers := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(headers) != 1 {
		return unknown("the cluster does not know you: a token is needed (an administrator makes one with phos user add)")
	}
	presented, err := token.ParseBearer(headers[0])
	if err != nil {
		return unknown(err.Error())
	}
	object, err := m.store.Get(ctx, record.UserTokenKey(presented.ID))
	if errors.Is(err, store.ErrNotFound) {
		return unknown(token.ErrRefused.Error())
	}
	if err != nil {
		return identity.Caller{}, err
	}
	kept, err := token.UnmarshalUser(object.Value)
	if err != nil {
		return identity.Caller{}, err
	}
	caller, err := kept.Verify(presented.Secret, time.Now())
	if err != nil {
		return unknown(err.Error())
	}
	return caller, nil
}

// Browsers makes the contexts of requests by HTTP, for Of.
type Browsers struct {
	*Members
	Rules local.Rules
}

// Local returns the context of the process at the other end of a connection in clear.
func (b Browsers) Local(ctx context.Context, conn net.Conn) context.Context {
	return grpcpeer.NewContext(ctx, &grpcpeer.Peer{Addr: conn.RemoteAddr(), AuthInfo: localInfoOf(b.Rules, conn)})
}

// Token returns the context of the user of a token, which has come by TLS or over loopback.
func (b Browsers) Token(ctx context.Context, text string) context.Context {
	ctx = grpcpeer.NewContext(ctx, &grpcpeer.Peer{AuthInfo: credentials.TLSInfo{}})
	return metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+text))
}

// localInfo is the AuthInfo of a connection in clear, from this machine.
type localInfo struct {
	credentials.CommonAuthInfo
	caller identity.Caller
	err    error
}

// AuthType implements credentials.AuthInfo.
func (localInfo) AuthType() string { return "local" }

// LocalCredentials are those of servers in clear, on sockets of this machine alone.
func LocalCredentials(rules local.Rules) credentials.TransportCredentials {
	return localCredentials{rules}
}

type localCredentials struct{ rules local.Rules }

// ServerHandshake finds out which user has connected. A caller that is unknown gets the error with
// its first request.
func (c localCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, localInfoOf(c.rules, conn), nil
}

// localInfoOf finds out which user has made a connection.
func localInfoOf(rules local.Rules, conn net.Conn) localInfo {
	caller, err := rules.Of(conn)
	if err != nil {
		err = &api.Error{Text: err.Error(), Err: api.ErrUnknownCaller}
	}
	common := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
	return localInfo{common, caller, err}
}

// ClientHandshake is not offered.
func (localCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("these credentials are those of a server")
}

// Info implements credentials.TransportCredentials.
func (localCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "local"}
}

// Clone implements credentials.TransportCredentials.
func (c localCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (localCredentials) OverrideServerName(string) error { return nil }
