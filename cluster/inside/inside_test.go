package inside

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// named is an AuthInfo with a name.
type named string

// AuthType implements credentials.AuthInfo.
func (n named) AuthType() string { return string(n) }

// serve starts a gRPC server that answers each request with an error that has the name of its
// caller, and returns the path of its socket.
func serve(t *testing.T, s *Server, divert Divert) string {
	t.Helper()
	server := grpc.NewServer(
		grpc.Creds(s.Credentials(insecure.NewCredentials(), divert)),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			from, _ := peer.FromContext(stream.Context())
			return status.Error(codes.Aborted, from.AuthInfo.AuthType())
		}))
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []net.Listener{listener, s} {
		go func() { _ = server.Serve(each) }() // it ends with the server
	}
	t.Cleanup(server.Stop)
	return path
}

// caller returns what the server takes a connection for.
func caller(t *testing.T, conn *grpc.ClientConn) string {
	t.Helper()
	defer conn.Close()
	err := conn.Invoke(t.Context(), "/x/Y", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Aborted {
		t.Errorf("got %v", err)
	}
	return status.Convert(err).Message()
}

// TestCallers: the server knows the callers of both kinds of connections.
func TestCallers(t *testing.T) {
	s := NewServer()
	path := serve(t, s, func(net.Conn, credentials.AuthInfo) bool { return false })
	for _, name := range []named{"ada", "grace"} {
		conn, err := s.Connect(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := caller(t, conn); got != string(name) {
			t.Errorf("got %q, want %q", got, name)
		}
	}
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	if got := caller(t, conn); got != "insecure" {
		t.Errorf("a caller from outside is %q", got)
	}
}

// TestDivert: a connection that was taken is no longer the server's, and one from inside is not
// offered.
func TestDivert(t *testing.T) {
	s, taken := NewServer(), make(chan net.Conn, 1)
	path := serve(t, s, func(conn net.Conn, info credentials.AuthInfo) bool {
		if info.AuthType() != "insecure" {
			t.Errorf("%s was offered", info.AuthType())
		}
		taken <- conn
		return true
	})
	outside, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	conn := <-taken
	defer conn.Close()
	go func() { _, _ = conn.Write([]byte("hello")) }() // what is missing is seen below
	var text [5]byte
	if n, err := outside.Read(text[:]); err != nil || string(text[:n]) != "hello" {
		t.Errorf("%q, %v", text[:n], err)
	}
	within, err := s.Connect(named("ada"))
	if err != nil {
		t.Fatal(err)
	}
	if got := caller(t, within); got != "ada" {
		t.Errorf("got %q", got)
	}
}

// TestClosed: without a server, requests end.
func TestClosed(t *testing.T) {
	s := NewServer()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := s.Connect(named("ada"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Invoke(t.Context(), "/x/Y", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewServer().dial(ctx, named("ada")); err == nil {
		t.Error("a request that has ended gets a connection")
	}
}
