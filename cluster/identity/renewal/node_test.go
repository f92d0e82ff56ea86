package renewal

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

const (
	ours   identity.ClusterID = "abcdefghijkl2345"
	theirs identity.ClusterID = "zzzzzzzzzzzz2345"
	life                      = time.Minute
)

// member is a node in a test, with a clock of its own.
type member struct {
	*testing.T
	*Node
	ring   authority.Ring
	holder *channel.Holder
	now    time.Time
	key    *ecdsa.PrivateKey
	// kept counts what was written; broken makes that fail.
	kept   int
	broken error
}

func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{T: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	m.ring = must(authority.NewRing(ours, m.now))(t)
	m.key = must(authority.NewKey())(t)
	first := m.issue(m.ring, must(authority.NewRequest(subject("gpu1"), m.key))(t), "gpu1")
	m.holder = channel.NewHolder(&tls.Certificate{Certificate: [][]byte{first.Raw}, PrivateKey: m.key, Leaf: first}, m.ring.Bundle())
	keep := func(*x509.Certificate, authority.Bundle) error { m.kept++; return m.broken }
	m.Node = New(m.holder, keep, func() time.Time { return m.now })
	return m
}

func must[V any](value V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func subject(name string) identity.Subject {
	return identity.Subject{Cluster: ours, Kind: identity.Node, Name: name}
}

// issue signs a request as a controller does.
func (m *member) issue(ring authority.Ring, request []byte, name string) *x509.Certificate {
	m.Helper()
	return must(ring.Signer().IssueNode(request, name, m.now, life))(m.T)
}

// renew takes the course of one renewal.
func (m *member) renew() error {
	m.Helper()
	next := m.issue(m.ring, must(m.Request())(m.T), "gpu1")
	return m.Accept(next.Raw, m.ring.Bundle().PEM())
}

// shown is the certificate that others see.
func (m *member) shown() *x509.Certificate { return m.holder.Certificate().Leaf }

// TestManyLives: a node that renews when that is due has a valid certificate at all times.
func TestManyLives(t *testing.T) {
	m := newMember(t)
	key := identity.FingerprintOf(m.shown())
	for end := m.now.Add(20 * life); m.now.Before(end); {
		if _, err := m.ring.Bundle().VerifyClient([]*x509.Certificate{m.shown()}, m.now); err != nil {
			t.Fatalf("at %v: %v", m.now, err)
		}
		if due := m.Due(); due > 0 {
			m.now = m.now.Add(due)
		}
		before := m.shown().NotAfter
		if err := m.renew(); err != nil {
			t.Fatal(err)
		}
		if !m.shown().NotAfter.After(before) || m.Due() == 0 {
			t.Fatalf("renewed at %v to %v after %v; due in %v", m.now, m.shown().NotAfter, before, m.Due())
		}
	}
	if identity.FingerprintOf(m.shown()) != key || m.kept < 20 {
		t.Errorf("the key changed, or %d certificates were kept", m.kept)
	}
}

// TestReplacedCA: a node follows each step of replacing the CA.
func TestReplacedCA(t *testing.T) {
	m := newMember(t)
	trust := func(next authority.Ring) {
		t.Helper()
		m.ring = next
		if err := m.Trust(m.ring.Bundle().PEM()); err != nil {
			t.Fatal(err)
		}
	}
	trust(must(m.ring.Prepare(m.now))(t))
	if m.Due() == 0 || m.kept != 1 {
		t.Errorf("prepared: due in %v, kept %d times", m.Due(), m.kept)
	}
	trust(m.ring)
	if m.kept != 1 {
		t.Error("the same CAs were kept again")
	}
	trust(must(m.ring.Switch())(t))
	if m.Due() != 0 {
		t.Errorf("switched: the certificate of the old CA is due in %v", m.Due())
	}
	if err := m.renew(); err != nil || m.Due() == 0 {
		t.Errorf("renewed: %v, due in %v", err, m.Due())
	}
	trust(must(m.ring.Finish())(t))
	if _, err := m.ring.Bundle().VerifyClient([]*x509.Certificate{m.shown()}, m.now); err != nil {
		t.Errorf("finished: %v", err)
	}
}

// TestUnfit: what is not the next certificate of this node changes nothing.
func TestUnfit(t *testing.T) {
	m := newMember(t)
	before := m.shown()
	own := m.ring.Bundle().PEM()
	strange := must(authority.NewRing(ours, m.now))(t)
	foreign := must(authority.NewRing(theirs, m.now))(t)
	otherKey := must(authority.NewRequest(subject("gpu1"), must(authority.NewKey())(t)))(t)
	otherName := must(authority.NewRequest(subject("gpu2"), m.key))(t)
	request := must(m.Request())(t)
	for name, test := range map[string]struct {
		der, trusted []byte
		err          error
	}{
		"garbage":       {[]byte("x"), own, ErrUnfit},
		"another key":   {m.issue(m.ring, otherKey, "gpu1").Raw, own, ErrUnfit},
		"another name":  {m.issue(m.ring, otherName, "gpu2").Raw, own, ErrUnfit},
		"another CA":    {m.issue(strange, request, "gpu1").Raw, own, ErrUnfit},
		"no CAs":        {m.issue(m.ring, request, "gpu1").Raw, nil, authority.ErrBundle},
		"other cluster": {m.issue(m.ring, request, "gpu1").Raw, foreign.Bundle().PEM(), identity.ErrOtherCluster},
	} {
		if err := m.Accept(test.der, test.trusted); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Trust(foreign.Bundle().PEM()); !errors.Is(err, identity.ErrOtherCluster) {
		t.Errorf("CAs of another cluster: %v", err)
	}
	if m.shown() != before || m.kept != 0 {
		t.Error("the certificate changed")
	}
	m.broken = errors.New("the disk is full")
	if err := m.renew(); !errors.Is(err, m.broken) || m.shown() != before {
		t.Errorf("what could not be kept is shown: %v", err)
	}
}
