package metrics

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/phos-gpu/phos/daemon/config"
)

// Serve serves /metrics and /healthz at the configured address until the returned function is
// called.
func (m *Metrics) Serve(settings config.Metrics) (func() error, error) {
	if settings.Listen == "" {
		return func() error { return nil }, nil
	}
	network, address := settings.Network()
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
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	// An answer means that phosd serves: it opens this listener last.
	mux.HandleFunc("/healthz", func(to http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(to, "ok\n") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // it returns an error whenever it is closed
	return server.Close, nil
}
