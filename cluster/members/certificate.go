package members

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

// Certificates returns what a controller shows, and renews it until the context ends.
func (m *Members) Certificates(ctx context.Context, name string, names authority.Names) (*channel.Holder, error) {
	other := m.other()
	certificate, renewAt, err := m.issue(name, names)
	if err != nil {
		return nil, err
	}
	holder := channel.NewHolder(certificate, m.Ring().Bundle())
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-other:
				other = m.other()
			case <-time.After(max(time.Minute, time.Until(renewAt))):
			}
			if next, at, err := m.issue(name, names); err == nil {
				holder.Set(next, m.Ring().Bundle())
				renewAt = at
			}
		}
	}()
	return holder, nil
}

// issue makes a key and a certificate for it. The chain has the CA, which a token for joining
// names.
func (m *Members) issue(name string, names authority.Names) (*tls.Certificate, time.Time, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, time.Time{}, err
	}
	signer := m.Ring().Signer()
	signed, err := signer.IssueController(name, names, &key.PublicKey, time.Now())
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("certificate of the controller: %w", err)
	}
	return &tls.Certificate{
		Certificate: [][]byte{signed.Raw, signer.Certificate().Raw}, PrivateKey: key, Leaf: signed,
	}, authority.RenewAt(signed), nil
}

// Renew signs the next certificate of a node. It is for the key of the present one: by that key the
// cluster's record knows the node.
func (m *Members) Renew(of identity.Caller, request []byte) *api.Issued {
	refused := func(err error) *api.Issued { return &api.Issued{Error: err.Error()} }
	if err := identity.Check(of, identity.Renew, identity.Target{Thing: identity.Machine, Owner: of.Name}); err != nil {
		return refused(err)
	}
	ring := m.Ring()
	signed, err := ring.Signer().IssueNode(request, of.Name, time.Now(), m.settings.NodeLife)
	if err != nil {
		return refused(err)
	}
	if identity.FingerprintOf(signed) != of.Key {
		return refused(fmt.Errorf("%w: it is for another key than that of node %s", authority.ErrRequest, of.Name))
	}
	return &api.Issued{Certificate: signed.Raw, Bundle: ring.Bundle().PEM()}
}
