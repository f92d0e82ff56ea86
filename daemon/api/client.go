package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// DefaultSocket is the default path of phosd's socket.
const DefaultSocket = "/run/phos/phosd.sock"

// SocketVariable is the environment variable with another socket path, for libphos.so and pos_cli.
const SocketVariable = "PHOS_SOCKET"

// Socket returns the path that a client uses: from the environment, or the default.
func Socket() string {
	if path := os.Getenv(SocketVariable); path != "" {
		return path
	}
	return DefaultSocket
}

// Client is a connection to one phosd.
type Client struct {
	// Daemon has one method for each request.
	Daemon DaemonClient
	conn   *grpc.ClientConn
}

// NoDaemonError is returned when no phosd answers at a socket. Its text says why and what to do.
type NoDaemonError struct {
	Socket string
	Err    error
}

func (e *NoDaemonError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.EACCES):
		return fmt.Sprintf("may not open %s: permission denied; its group may (access.groups of phosd.toml)", e.Socket)
	case errors.Is(e.Err, syscall.ENOENT), errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no phosd runs at %s; start it as root with: pos_cli --start", e.Socket)
	}
	return fmt.Sprintf("no phosd answers at %s: %v", e.Socket, e.Err)
}

// Unwrap returns both ErrNoDaemon and the cause.
func (e *NoDaemonError) Unwrap() []error { return []error{ErrNoDaemon, e.Err} }

// Dial connects to the phosd at a socket. If there is none it fails at once with a *NoDaemonError.
func Dial(socket string) (*Client, error) {
	probe, err := net.Dial("unix", socket)
	if proc.Unknown(err) { // the error does not say whether a phosd is there
		return nil, fmt.Errorf("reach phosd: %w", err)
	}
	if err != nil {
		return nil, &NoDaemonError{Socket: socket, Err: err}
	}
	conn, err := dial(socket, probe)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", socket, err)
	}
	return &Client{Daemon: NewDaemonClient(conn), conn: conn}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// WorkerConn is phosd's connection to a worker.
type WorkerConn struct {
	// Worker has one method for each request.
	Worker WorkerClient
	conn   *grpc.ClientConn
}

// DialWorker returns a client for a worker's control socket. It connects at the first request.
func DialWorker(socket string) (*WorkerConn, error) {
	conn, err := dial(socket, nil)
	if err != nil {
		return nil, fmt.Errorf("dial worker %s: %w", socket, err)
	}
	return &WorkerConn{Worker: NewWorkerClient(conn), conn: conn}, nil
}

// Close ends the connection.
func (c *WorkerConn) Close() error { return c.conn.Close() }

// dial returns a gRPC connection to a socket. It uses first, if not nil, as its first connection.
func dial(socket string, first net.Conn) (*grpc.ClientConn, error) {
	ready := make(chan net.Conn, 1)
	if first != nil {
		ready <- first
	}
	var dialer net.Dialer
	conn, err := grpc.NewClient("passthrough:///phos",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(clientErrors),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			select {
			case conn := <-ready:
				return conn, nil
			default:
				return dialer.DialContext(ctx, "unix", socket)
			}
		}))
	if err != nil && first != nil {
		return nil, errors.Join(err, first.Close())
	}
	return conn, err
}
