package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Inside connects to the services as a caller.
type Inside interface {
	Connect(caller credentials.AuthInfo) (*grpc.ClientConn, error)
}

// Bounds of a connection.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
)

// Server serves connections that a gRPC server has handed on.
type Server struct {
	inside Inside
	http   *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	zips   chan struct{} // a slot for each zip file that may be converted at once
}

// zipsAtOnce is how many zip files are converted at the same time.
const zipsAtOnce = 2

// NewServer returns a server. Serve serves what Divert is given.
func NewServer(inside Inside, log *slog.Logger) *Server {
	s := &Server{
		inside: inside, conns: make(chan net.Conn), closed: make(chan struct{}), zips: make(chan struct{}, zipsAtOnce),
	}
	s.http = &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: s.withCaller, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// handler returns what answers all requests.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/code", s.code)
	mux.HandleFunc("POST /v1/{service}/{method}", s.call)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errNoMethod) })
	return mux
}

// Serve serves until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(listener{s}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends all requests.
func (s *Server) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.http.Close()
}

// caller is a connection whose caller is known.
type caller struct {
	net.Conn
	info credentials.AuthInfo
}

// Divert takes a connection if it is one of HTTP/1.1.
func (s *Server) Divert(conn net.Conn, info credentials.AuthInfo) bool {
	if !speaksHTTP1(conn, info) {
		return false
	}
	// The gRPC server has set a deadline for its handshake. It fails only on a closed connection.
	_ = conn.SetDeadline(time.Time{})
	select {
	case s.conns <- caller{conn, info}:
	case <-s.closed:
		_ = conn.Close()
	}
	return true
}

// callerKey is the key of a caller in the context of its connection.
type callerKey struct{}

// withCaller is the context of a connection.
func (s *Server) withCaller(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(caller); ok {
		ctx = context.WithValue(ctx, callerKey{}, c.info)
	}
	return ctx
}

// connect connects to the services as the caller of a request.
func (s *Server) connect(ctx context.Context) (*grpc.ClientConn, error) {
	info, _ := ctx.Value(callerKey{}).(credentials.AuthInfo) // without one, the services know no caller
	return s.inside.Connect(info)
}

// listener is a net.Listener of the connections that were handed on.
type listener struct{ *Server }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (listener) Addr() net.Addr { return &net.UnixAddr{Name: "gateway", Net: "unix"} }
