package renewal

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

// Keep writes what a node shows and trusts, so that it survives a power cut.
type Keep func(certificate *x509.Certificate, trusted authority.Bundle) error

// Node is the certificate of a node.
type Node struct {
	holder *channel.Holder
	keep   Keep
	clock  channel.Clock
	mu     sync.Mutex // held while the two are changed
}

// New returns the certificate that a holder has.
func New(holder *channel.Holder, keep Keep, clock channel.Clock) *Node {
	return &Node{holder: holder, keep: keep, clock: clock}
}

// ErrUnfit means that a certificate is not the next one of this node.
var ErrUnfit = errors.New("the new certificate does not fit this node")

// Due returns in how long the next certificate is to be requested; 0: now.
func (n *Node) Due() time.Duration {
	leaf := n.holder.Certificate().Leaf
	if !n.holder.Bundle().Signed(leaf) {
		return 0
	}
	return max(0, authority.RenewAt(leaf).Sub(n.clock()))
}

// Ends returns when the present certificate ends.
func (n *Node) Ends() time.Time { return n.holder.Certificate().Leaf.NotAfter }

// Bundle returns the CAs that are trusted now.
func (n *Node) Bundle() authority.Bundle { return n.holder.Bundle() }

// Signer returns the CA that has signed the present certificate; false: none that is trusted.
func (n *Node) Signer() (identity.Fingerprint, bool) {
	return n.holder.Bundle().Signer(n.holder.Certificate().Leaf)
}

// Again returns in how long a request that failed is to be repeated: often enough that a
// certificate does not end because a controller was away.
func (n *Node) Again() time.Duration {
	left := n.holder.Certificate().Leaf.NotAfter.Sub(n.clock())
	return min(max(left/20, time.Second), time.Hour)
}

// Request returns a request for the next certificate, for the same name and key.
func (n *Node) Request() ([]byte, error) {
	certificate := n.holder.Certificate()
	subject, err := identity.SubjectOf(certificate.Leaf)
	if err != nil {
		return nil, err
	}
	key, fits := certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !fits {
		return nil, fmt.Errorf("%w: a key of type %T", ErrUnfit, certificate.PrivateKey)
	}
	return authority.NewRequest(subject, key)
}

// Accept makes a certificate (DER) the one that is shown, and the CAs (PEM) those that are trusted.
// A certificate that is not this node's, or that these CAs have not signed, changes nothing.
func (n *Node) Accept(der, trusted []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	bundle, err := n.parse(trusted)
	if err != nil {
		return err
	}
	next, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	if err := n.check(next, bundle); err != nil {
		return err
	}
	return n.set(next, bundle)
}

// Trust makes the CAs (PEM) that a controller names those that are trusted. The caller has verified
// the controller by the CAs that were trusted until now.
func (n *Node) Trust(trusted []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	bundle, err := n.parse(trusted)
	if err != nil || string(bundle.PEM()) == string(n.holder.Bundle().PEM()) {
		return err
	}
	return n.set(n.holder.Certificate().Leaf, bundle)
}

// parse reads CAs of this node's cluster.
func (n *Node) parse(trusted []byte) (authority.Bundle, error) {
	bundle, err := authority.ParseBundle(trusted)
	if err != nil {
		return bundle, err
	}
	if own := n.holder.Bundle().Cluster(); bundle.Cluster() != own {
		return bundle, fmt.Errorf("%w: CAs of %s, and this is a node of %s", identity.ErrOtherCluster, bundle.Cluster(), own)
	}
	return bundle, nil
}

// check returns an error for a certificate that is not the next one of this node.
func (n *Node) check(next *x509.Certificate, bundle authority.Bundle) error {
	present := n.holder.Certificate().Leaf
	caller, err := bundle.VerifyClient([]*x509.Certificate{next}, n.clock())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	subject, err := identity.SubjectOf(present)
	switch {
	case err != nil:
		return err
	case caller.Kind != subject.Kind || caller.Name != subject.Name:
		return fmt.Errorf("%w: it is that of %s", ErrUnfit, caller)
	case caller.Key != identity.FingerprintOf(present):
		return fmt.Errorf("%w: it is for another key", ErrUnfit)
	}
	return nil
}

// set writes and then shows and trusts.
func (n *Node) set(next *x509.Certificate, bundle authority.Bundle) error {
	if err := n.keep(next, bundle); err != nil {
		return fmt.Errorf("keep the certificate: %w", err)
	}
	n.holder.Set(&tls.Certificate{
		Certificate: [][]byte{next.Raw}, PrivateKey: n.holder.Certificate().PrivateKey, Leaf: next,
	}, bundle)
	return nil
}
