package scrape

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/phos-gpu/phos/internal/scrape/endpoint"
)

// Serve serves /metrics and /healthz at HOST:PORT or unix:/PATH until the returned function is
// called. An empty place is none.
func Serve(listen string, numbers prometheus.Gatherer) (func() error, error) {
	if listen == "" {
		return func() error { return nil }, nil
	}
	network, address := endpoint.Network(listen)
	if network == "unix" {
		if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if network == "unix" {
		// The metrics name the programs of all users.
		if err := os.Chmod(address, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("metrics: %w", err), listener.Close())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(numbers, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	// An answer means that the daemon serves: it opens this listener last.
	mux.HandleFunc("/healthz", func(to http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(to, "ok\n") })
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: 10 * ioTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	// Serve returns an error whenever it is closed.
	go func() { _ = server.Serve(&limitedListener{Listener: listener, free: newSlots()}) }()
	return server.Close, nil
}

// Bounds of what clients can take from a daemon: any process that reaches the address can connect.
const (
	maxConnections = 32
	maxScrapes     = 4
	maxHeaderBytes = 8 << 10
	ioTimeout      = 5 * time.Second
	idleTimeout    = 2 * time.Minute
)

// limitedListener accepts at most maxConnections connections at a time. Others are closed at once,
// so that they do not wait with a descriptor of the daemon.
type limitedListener struct {
	net.Listener
	free chan struct{}
}

// newSlots returns the slots of maxConnections connections.
func newSlots() chan struct{} {
	free := make(chan struct{}, maxConnections)
	for range maxConnections {
		free <- struct{}{}
	}
	return free
}

// Accept waits for a connection that has a slot.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case <-l.free:
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.free <- struct{}{} })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
