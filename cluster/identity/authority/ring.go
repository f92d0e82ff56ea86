package authority

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

// Ring is the CA of a cluster with its key, and while the CA is replaced also the other one. The
// methods that change it return another Ring, which the caller writes in place of this one. The
// package comment has the steps.
type Ring struct {
	// signer issues all certificates.
	signer *Authority
	// next is trusted already and will issue; nil: the CA is not being replaced, or next is signer
	// now.
	next *Authority
	// previous is trusted still; nil: there is none.
	previous *x509.Certificate
}

// ErrStep means that the CA is not in the state from which a step is made.
var ErrStep = errors.New("not the next step of replacing the CA")

// NewRing makes the first CA of a cluster.
func NewRing(cluster identity.ClusterID, now time.Time) (Ring, error) {
	first, err := Create(cluster, now)
	if err != nil {
		return Ring{}, err
	}
	return Ring{signer: first}, nil
}

// Signer returns the CA that issues certificates now.
func (r Ring) Signer() *Authority { return r.signer }

// Bundle returns all CAs that are trusted. The one that issues comes first.
func (r Ring) Bundle() Bundle {
	b := Bundle{r.signer.cluster, []*x509.Certificate{r.signer.certificate}}
	if r.next != nil {
		b.certificates = append(b.certificates, r.next.certificate)
	}
	if r.previous != nil {
		b.certificates = append(b.certificates, r.previous)
	}
	return b
}

// Step says how far the CA is replaced.
func (r Ring) Step() Step {
	switch {
	case r.next != nil:
		return Prepared
	case r.previous != nil:
		return Switched
	}
	return Settled
}

// Step is a state of a Ring.
type Step string

// The states, in their order.
const (
	Settled  Step = "settled"  // there is one CA
	Prepared Step = "prepared" // the next CA is trusted
	Switched Step = "switched" // the next CA issues, and the old one is trusted still
)

// need returns ErrStep if the Ring is in another state.
func (r Ring) need(verb string, step Step) error {
	if got := r.Step(); got != step {
		return fmt.Errorf("%s the CA: %w: it is %s, and must be %s", verb, ErrStep, got, step)
	}
	return nil
}

// Prepare makes the next CA and trusts it. It issues nothing yet.
func (r Ring) Prepare(now time.Time) (Ring, error) {
	if err := r.need("replace", Settled); err != nil {
		return Ring{}, err
	}
	next, err := Create(r.signer.cluster, now)
	if err != nil {
		return Ring{}, err
	}
	return Ring{signer: r.signer, next: next}, nil
}

// Abort takes Prepare back.
func (r Ring) Abort() (Ring, error) {
	if err := r.need("keep", Prepared); err != nil {
		return Ring{}, err
	}
	return Ring{signer: r.signer}, nil
}

// Switch lets the next CA issue. The key of the old one is gone, and its certificates stay valid.
func (r Ring) Switch() (Ring, error) {
	if err := r.need("switch", Prepared); err != nil {
		return Ring{}, err
	}
	return Ring{signer: r.next, previous: r.signer.certificate}, nil
}

// Finish ends the trust in the old CA and in all certificates that it has issued.
func (r Ring) Finish() (Ring, error) {
	if err := r.need("forget", Switched); err != nil {
		return Ring{}, err
	}
	return Ring{signer: r.signer}, nil
}
