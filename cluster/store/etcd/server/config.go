package server

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
)

const (
	// DefaultQuotaBytes is how large the database may become.
	DefaultQuotaBytes = 2 << 30
	// minQuotaBytes holds an empty database and some objects.
	minQuotaBytes = 1 << 20
)

// Config says where an etcd lives, and what it belongs to.
type Config struct {
	// Cluster is the name of the cluster, Name that of this member.
	Cluster, Name string
	// DataDir is made if it is not there. It needs a disk that is fast to synchronize.
	DataDir string
	// Socket is the path of the unix socket for clients of this machine; without one it is SocketName
	// in DataDir, unless there are Members with a ClientURL.
	Socket string
	// Members is nil for an etcd that is alone.
	Members *Members
	// QuotaBytes is how large the database may become; 0 means DefaultQuotaBytes.
	QuotaBytes int64
	// Log gets the warnings and errors of etcd.
	Log *slog.Logger
}

// Members are an etcd of several machines, and the place of one of them in it.
type Members struct {
	// PeerURLs are where the members reach each other, by their names: https://HOST:PORT.
	PeerURLs map[string]string
	// ClientURL is where clients reach this member: https://HOST:PORT. Empty: only by its socket.
	ClientURL string
	// ListenPeer and ListenClient are the addresses to listen at, IP:PORT. Without them they are taken
	// from the URLs, which must have IPs then.
	ListenPeer, ListenClient string
	// Join adds this member to a cluster that runs already and has been told of it. Otherwise all
	// members start together, for the first time.
	Join bool
	TLS  TLS
}

// TLS names the files with which members and clients know each other. etcd reads them again for
// each connection.
type TLS struct {
	// Cert and Key are the member's, as server and as client. The certificate names its addresses.
	Cert, Key string
	// CA is the authority of all members and clients.
	CA string
	// Names are the common names of certificates that may connect. Without any, all of that authority
	// may: it must not have signed those of nodes and users then.
	Names []string
}

// SocketName is the name of the socket in the data directory.
const SocketName = "etcd.sock"

// httpName is the name of the socket for metrics and health in the data directory.
const httpName = "http.sock"

// withDefaults returns the configuration with all fields set.
func (c Config) withDefaults() Config {
	if c.Socket == "" && (c.Members == nil || c.Members.ClientURL == "") {
		c.Socket = filepath.Join(c.DataDir, SocketName)
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = DefaultQuotaBytes
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// simpleName is a name that needs no quotes in etcd's syntax of members.
var simpleName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

func (c Config) check() error {
	for _, name := range []string{c.Cluster, c.Name} {
		if !simpleName.MatchString(name) {
			return fmt.Errorf("name of a cluster or member: %.80q is not made of letters, digits and \"._-\"", name)
		}
	}
	if !filepath.IsAbs(c.DataDir) {
		return fmt.Errorf("the data directory is an absolute path, not %.80q", c.DataDir)
	}
	if c.QuotaBytes < minQuotaBytes {
		return fmt.Errorf("a quota of %d bytes is too small: at least %d", c.QuotaBytes, minQuotaBytes)
	}
	if c.Members == nil {
		return nil
	}
	return c.Members.check(c.Name)
}

func (m *Members) check(name string) error {
	if _, ok := m.PeerURLs[name]; !ok {
		return fmt.Errorf("member %s is not among the %d members", name, len(m.PeerURLs))
	}
	for other := range m.PeerURLs {
		if !simpleName.MatchString(other) {
			return fmt.Errorf("name of a member: %.80q is not made of letters, digits and \"._-\"", other)
		}
	}
	if m.TLS.Cert == "" || m.TLS.Key == "" || m.TLS.CA == "" {
		return fmt.Errorf("member %s needs a certificate, its key, and the authority of all members", name)
	}
	return nil
}
