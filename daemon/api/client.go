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

// DefaultSocket is where phosd listens unless it is told otherwise.
const DefaultSocket = "/run/phos/phosd.sock"

// SocketVariable is the environment variable that names another socket, for libphos.so and pos_cli
// alike.
const SocketVariable = "PHOS_SOCKET"

// Socket is the path that a client uses: the environment's, else the default.
func Socket() string {
	if path := os.Getenv(SocketVariable); path != "" {
		return path
	}
	return DefaultSocket
}

// Client speaks to one phosd.
type Client struct {
	// Daemon has one method for each request.
	Daemon DaemonClient
	conn   *grpc.ClientConn
}

// NoDaemonError says that nothing answers at a socket, why, and what to do.
type NoDaemonError struct {
	Socket string
	Err    error
}

func (e *NoDaemonError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.EACCES):
		return fmt.Sprintf("may not open %s: permission denied", e.Socket)
	case errors.Is(e.Err, syscall.ENOENT), errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no phosd runs at %s; start it as root with: pos_cli --start --target daemon", e.Socket)
	}
	return fmt.Sprintf("no phosd answers at %s: %v", e.Socket, e.Err)
}

// Unwrap gives both ErrNoDaemon and the cause.
func (e *NoDaemonError) Unwrap() []error { return []error{ErrNoDaemon, e.Err} }

// Dial connects to the phosd at a socket. It fails at once, with a *NoDaemonError when there is
// none.
func Dial(socket string) (*Client, error) {
	probe, err := net.Dial("unix", socket)
	if proc.Unknown(err) { // a phosd may be there
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

// DialWorker prepares a connection to a worker's control socket; it is made at the first request.
func DialWorker(socket string) (*WorkerConn, error) {
	conn, err := dial(socket, nil)
	if err != nil {
		return nil, fmt.Errorf("dial worker %s: %w", socket, err)
	}
	return &WorkerConn{Worker: NewWorkerClient(conn), conn: conn}, nil
}

// Close ends the connection.
func (c *WorkerConn) Close() error { return c.conn.Close() }

// dial uses first, if not nil, as its first connection, so that a probe is not wasted.
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
