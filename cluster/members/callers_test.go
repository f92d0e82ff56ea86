package members

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/local"
)

// asked is what a server has found out about a request.
type asked struct {
	caller identity.Caller
	err    error
}

// serve serves requests on a listener, and returns a channel with the caller of each.
func (w *world) serve(listener net.Listener, creds credentials.TransportCredentials) <-chan asked {
	callers := make(chan asked, 1)
	server := grpc.NewServer(grpc.Creds(creds), grpc.UnaryInterceptor(
		func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			c, err := w.Of(ctx)
			callers <- asked{c, err}
			return &api.AboutReply{}, nil
		}))
	api.RegisterAgentsServer(server, api.UnimplementedAgentsServer{})
	go func() { _ = server.Serve(listener) }() // it returns when the server is stopped
	w.Cleanup(server.Stop)
	return callers
}

// ask makes a request to an address, and returns an error if it does not get through.
func (w *world) ask(address string, creds credentials.TransportCredentials, headers ...string) error {
	w.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(w.Context(), headers...)
	_, err = api.NewAgentsClient(conn).About(ctx, &api.AboutRequest{})
	return err
}

// TestCallers: over real connections, a node is known by its certificate, whatever token it sends,
// a user by a token, and a process of this machine by its socket.
func TestCallers(t *testing.T) {
	w := newWorld(t)
	holder, err := w.Certificates(t.Context(), "c1", authority.Names{DNS: []string{"c1"}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	callers := w.serve(listener, credentials.NewTLS(channel.Server(holder, time.Now)))
	address := listener.Addr().String()
	key := w.key()
	joined, err := w.Join(t.Context(), w.leader, &api.JoinRequest{
		Token: w.joinToken(1), Name: "n1", Csr: w.request("n1", key),
	})
	if err != nil {
		t.Fatal(err)
	}
	node := &tls.Certificate{Certificate: [][]byte{joined.GetCertificate()}, PrivateKey: key}
	bundle := w.Ring().Bundle()
	as := func(certificate *tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(channel.Client(channel.NewHolder(certificate, bundle), time.Now))
	}
	admin := "Bearer " + add(t, w.Members, &api.AddUserRequest{User: &api.User{Name: "ops", Role: "admin"}})
	for _, test := range []struct {
		name    string
		as      *tls.Certificate
		headers []string
		kind    identity.Kind
		caller  string
	}{
		{"a node", node, nil, identity.Node, "n1"},
		{"a node with a token", node, []string{"authorization", admin}, identity.Node, "n1"},
		{"another controller", holder.Certificate(), nil, identity.Controller, "c1"},
		{"a user", nil, []string{"authorization", admin}, identity.User, "ops"},
		{"without anything", nil, nil, "", ""},
	} {
		if err := w.ask(address, as(test.as), test.headers...); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		got := <-callers
		if got.caller.Kind != test.kind || got.caller.Name != test.caller || (test.kind == "") != errors.Is(got.err, api.ErrUnknownCaller) {
			t.Errorf("%s is %+v, %v", test.name, got.caller, got.err)
		}
	}
	other := newWorld(t)
	reply, err := other.Join(t.Context(), other.leader, &api.JoinRequest{
		Token: other.joinToken(1), Name: "n1", Csr: other.request("n1", key),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ask(address, as(&tls.Certificate{Certificate: [][]byte{reply.GetCertificate()}, PrivateKey: key})); err == nil {
		t.Errorf("a node of another cluster is %+v", <-callers)
	}
}

// TestLocalCaller: a process of this machine is known as its user, on both kinds of sockets. The
// token of such a request counts for nothing.
func TestLocalCaller(t *testing.T) {
	w := newWorld(t)
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	viewer := "Bearer " + add(t, w.Members, &api.AddUserRequest{User: &api.User{Name: "eve", Role: "viewer"}})
	self := identity.Caller{Kind: identity.Local, Role: identity.RoleUser}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if self.Name, self.Account = who.Username, who.Username; os.Getuid() == 0 {
		self.Role, self.AllowRoot = identity.RoleAdmin, true
	}
	for _, listener := range []net.Listener{socket, loopback} {
		callers := w.serve(listener, LocalCredentials(local.Rules{AllowRoot: true}))
		for _, headers := range [][]string{nil, {"authorization", viewer}} {
			if err := w.askLocally(listener.Addr(), headers...); err != nil {
				t.Fatal(err)
			}
			if got := <-callers; got.caller != self || got.err != nil {
				t.Errorf("over %v with %q it is %+v, %v; want %+v", listener.Addr(), headers, got.caller, got.err, self)
			}
		}
	}
}

// askLocally makes a request in clear.
func (w *world) askLocally(to net.Addr, headers ...string) error {
	w.Helper()
	conn, err := grpc.NewClient("passthrough:///here", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, to.Network(), to.String())
		}))
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	_, err = api.NewAgentsClient(conn).About(metadata.AppendToOutgoingContext(w.Context(), headers...), &api.AboutRequest{})
	return err
}
