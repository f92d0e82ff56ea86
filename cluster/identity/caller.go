package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
)

// Kind says what a caller is, and what proves it.
type Kind string

// The kinds of callers. The zero Kind is no caller.
const (
	Node       Kind = "node"       // an agent, by its certificate
	Controller Kind = "controller" // a controller, by its certificate
	User       Kind = "user"       // a person or a script, by a token
	Local      Kind = "local"      // a user of the controller's machine, by the socket of the process
)

// Role says what a user may do.
type Role string

// The roles of users. The zero Role may do nothing.
const (
	RoleAdmin  Role = "admin"  // may do everything but speak for a node
	RoleUser   Role = "user"   // sees and touches the launches of one account
	RoleViewer Role = "viewer" // sees everything and changes nothing
)

// Check returns an error for what is no role.
func (r Role) Check() error {
	switch r {
	case RoleAdmin, RoleUser, RoleViewer:
		return nil
	}
	return fmt.Errorf("role %q: %w: want admin, user or viewer", string(r), ErrBadName)
}

// Caller is where a request comes from. The zero Caller may do nothing.
type Caller struct {
	Kind Kind
	// Name is that of a node or controller, of a user's token, or of a local user's account.
	Name string
	// Account is the Unix account that launches of a user or local user run as.
	Account string
	// Role is that of a user or local user.
	Role Role
	// AllowRoot means that an administrator allows launches of this caller to run as root.
	AllowRoot bool
	// Key is that of the certificate of a node or controller. The controller keeps the key with the
	// record of the node, and compares it, so that a node that was removed or has joined again is
	// not known by the old certificate.
	Key Fingerprint
}

// IsAdmin reports whether the caller is an administrator.
func (c Caller) IsAdmin() bool {
	return (c.Kind == User || c.Kind == Local) && c.Role == RoleAdmin
}

func (c Caller) String() string {
	switch c.Kind {
	case Node, Controller:
		return string(c.Kind) + " " + c.Name
	case User:
		return fmt.Sprintf("%s %s (token %s)", c.Role, c.Account, c.Name)
	case Local:
		return fmt.Sprintf("local %s %s", c.Role, c.Account)
	}
	return "unknown caller"
}

// LogValue is String.
func (c Caller) LogValue() slog.Value { return slog.StringValue(c.String()) }

var (
	// ErrUnverified means that no verified certificate stands behind a connection.
	ErrUnverified = errors.New("no verified certificate")
	// ErrOtherCluster means that a certificate, token or CA belongs to another cluster.
	ErrOtherCluster = errors.New("of another cluster")
	// ErrRootAccount means that no administrator has allowed launches of the caller to run as root.
	ErrRootAccount = errors.New("launches of this user may not run as root")
)

// OfCertificate returns the caller behind a connection whose chains TLS has verified
// (tls.ConnectionState.VerifiedChains).
func OfCertificate(cluster ClusterID, verified [][]*x509.Certificate) (Caller, error) {
	if len(verified) == 0 || len(verified[0]) < 2 {
		return Caller{}, ErrUnverified
	}
	leaf := verified[0][0]
	s, err := SubjectOf(leaf)
	if err != nil {
		return Caller{}, fmt.Errorf("caller by certificate: %w", err)
	}
	if s.Cluster != cluster {
		return Caller{}, fmt.Errorf("caller by certificate: %s %s is %w, %s", s.Kind, s.Name, ErrOtherCluster, s.Cluster)
	}
	return Caller{Kind: s.Kind, Name: s.Name, Key: FingerprintOf(leaf)}, nil
}

// CheckAccount returns ErrRootAccount if a launch of the caller may not run as an account. The node
// calls it with the uid that the account has there, because root can have other names.
func (c Caller) CheckAccount(account string, uid uint32) error {
	if (uid == 0 || account == "root") && !c.AllowRoot {
		return fmt.Errorf("run as %s (user %d): %w; an administrator can allow it", account, uid, ErrRootAccount)
	}
	return nil
}
