package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

const (
	// DefaultPrefix is where phos keeps its keys. Its last part is the version of the format.
	DefaultPrefix = "/phos/v1"
	// DefaultLease is how long a leadership lasts without a renewal. When the machine of the leader
	// dies, etcd needs up to 2 s to elect a leader of its own, and counts the lease from then.
	DefaultLease = 3 * time.Second
	// DefaultTimeout is the time limit of a request.
	DefaultTimeout = 5 * time.Second
	// minLease is the shortest lease: etcd counts in seconds.
	minLease = time.Second
)

// Config says which etcd to use, and how. Only Endpoints has no default.
type Config struct {
	// Endpoints are all unix:///PATH, or all https://HOST:PORT.
	Endpoints []string
	// TLS has the authority of https endpoints, and the certificate that etcd asks for.
	TLS *tls.Config
	// Prefix begins all keys, and is no prefix of another cluster's.
	Prefix string
	// Lease is how long a leadership lasts without a renewal.
	Lease time.Duration
	// Timeout is the time limit of each request.
	Timeout time.Duration
	// Log gets what a caller cannot see: interrupted watches and renewals.
	Log *slog.Logger
}

// withDefaults returns the configuration with all fields set.
func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) check() error {
	if len(c.Endpoints) == 0 {
		return errors.New("no endpoint of etcd is given")
	}
	first := ""
	for _, endpoint := range c.Endpoints {
		scheme, err := checkEndpoint(endpoint)
		if err != nil {
			return err
		}
		if first == "" {
			first = scheme
		}
		if scheme != first {
			return fmt.Errorf("endpoints of etcd are all unix or all https: %.200q", c.Endpoints)
		}
	}
	switch {
	case !strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/"):
		return fmt.Errorf("the prefix of keys begins with a slash and ends without one: %.80q", c.Prefix)
	case c.Lease < minLease:
		return fmt.Errorf("a lease of %v is too short: at least %v", c.Lease, minLease)
	case c.Timeout < 0:
		return fmt.Errorf("a time limit of %v", c.Timeout)
	}
	return nil
}

// checkEndpoint returns the scheme of an endpoint. Plain http is none: etcd would believe any
// process in the network.
func checkEndpoint(endpoint string) (scheme string, err error) {
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("endpoint of etcd: %w", err)
	}
	unix := parsed.Scheme == "unix" && parsed.Host == "" && strings.HasPrefix(parsed.Path, "/")
	https := parsed.Scheme == "https" && parsed.Port() != "" && parsed.Path == ""
	if !unix && !https {
		return "", fmt.Errorf("endpoint of etcd: %.80q is neither unix:///PATH nor https://HOST:PORT", endpoint)
	}
	return parsed.Scheme, nil
}
