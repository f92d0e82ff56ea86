package channel

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/phos-gpu/phos/cluster/identity/authority"
)

// Source has what a member shows and trusts now.
type Source interface {
	// Certificate returns what is shown; nil: nothing, as for a user.
	Certificate() *tls.Certificate
	// Bundle returns the CAs that are trusted.
	Bundle() authority.Bundle
}

// Holder is a Source that can be changed while it is used.
type Holder struct{ now atomic.Pointer[held] }

// held is what a Holder has at one time.
type held struct {
	certificate *tls.Certificate
	bundle      authority.Bundle
}

// NewHolder makes a Holder. The certificate is nil for users.
func NewHolder(certificate *tls.Certificate, bundle authority.Bundle) *Holder {
	h := &Holder{}
	h.Set(certificate, bundle)
	return h
}

// Set changes both at once, for all handshakes that begin later.
func (h *Holder) Set(certificate *tls.Certificate, bundle authority.Bundle) {
	h.now.Store(&held{certificate, bundle})
}

// Certificate implements Source.
func (h *Holder) Certificate() *tls.Certificate { return h.now.Load().certificate }

// Bundle implements Source.
func (h *Holder) Bundle() authority.Bundle { return h.now.Load().bundle }
