package channel

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
)

// TestHandshakes connects members, strangers and wrong clocks.
func TestHandshakes(t *testing.T) {
	ca, sibling, stranger := newCA(t, cluster), newCA(t, cluster), newCA(t, foreign)
	trust := bundle(t, ca)
	gpu1 := node(t, ca, "gpu1")
	server := func(certificate *tls.Certificate, trust authority.Bundle, clock time.Time) *tls.Config {
		return Server(NewHolder(certificate, trust), at(clock))
	}
	client := func(certificate *tls.Certificate, trust authority.Bundle, clock time.Time) *tls.Config {
		return Client(NewHolder(certificate, trust), at(clock))
	}
	good := server(controller(t, ca), trust, now)
	behind := server(controller(t, ca), trust, now.Add(-59*time.Minute))
	trustsBoth := server(controller(t, ca), bundle(t, sibling, ca), now)
	ofSibling := server(controller(t, sibling), bundle(t, sibling), now)
	ofStranger := server(controller(t, stranger), bundle(t, stranger), now)
	old := oldTLS(&tls.Config{Certificates: []tls.Certificate{*controller(t, ca)}})
	later := now.Add(authority.NodeLife + time.Minute)
	muchLater := now.Add(authority.ControllerLife + time.Minute)
	for name, test := range map[string]struct {
		server, client *tls.Config
		caller         string // empty: refused
		says           string // by one of the sides
	}{
		"node":                         {good, client(gpu1, trust, now), "node gpu1", ""},
		"controller":                   {good, client(controller(t, ca), trust, now), "controller c1", ""},
		"user":                         {good, client(nil, trust, now), "unknown caller", ""},
		"node, clock behind":           {good, client(gpu1, trust, now.Add(-59*time.Minute)), "node gpu1", ""},
		"controller, clock behind":     {behind, client(gpu1, trust, now), "node gpu1", ""},
		"node, clock too far behind":   {good, client(gpu1, trust, now.Add(-2*time.Hour)), "", "not yet valid"},
		"controller, clock ahead":      {server(controller(t, ca), trust, later), client(gpu1, trust, now), "", "expired"},
		"node of another CA":           {good, client(node(t, sibling, "gpu1"), trust, now), "", "unknown authority"},
		"node of another cluster":      {good, client(node(t, stranger, "gpu1"), trust, now), "", "unknown authority"},
		"controller of another CA":     {ofSibling, client(nil, trust, now), "", "of another cluster"},
		"controller of another":        {ofStranger, client(nil, trust, now), "", "of another cluster"},
		"node as a controller":         {server(gpu1, trust, now), client(nil, trust, now), "", "incompatible key usage"},
		"user with old TLS":            {good, oldTLS(client(nil, trust, now)), "", "protocol version not supported"},
		"controller with old TLS":      {old, client(nil, trust, now), "", "protocol version"},
		"controller without a pair":    {server(nil, trust, now), client(nil, trust, now), "", "no certificate"},
		"user who trusts both":         {good, client(nil, bundle(t, sibling, ca), now), "unknown caller", ""},
		"controller that trusts both":  {trustsBoth, client(node(t, sibling, "gpu1"), trust, now), "node gpu1", ""},
		"user who trusts nothing":      {good, client(nil, authority.Bundle{}, now), "", "of another cluster"},
		"controller, expired in 90 d.": {good, client(nil, trust, muchLater), "", "expired"},
	} {
		got := handshake(t, test.server, test.client)
		if err := errors.Join(got.client, got.server); (err == nil) != (test.caller != "") ||
			err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: client %v; server %v; want %q", name, got.client, got.server, test.says)
			continue
		}
		if test.caller != "" && got.caller.String() != test.caller {
			t.Errorf("%s: %v, want %s", name, got.caller, test.caller)
		}
		if test.caller == "unknown caller" && !errors.Is(got.unknown, identity.ErrUnverified) {
			t.Errorf("%s: %v, want ErrUnverified", name, got.unknown)
		}
	}
}

// oldTLS lets a side speak TLS 1.2 alone.
func oldTLS(config *tls.Config) *tls.Config {
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return config
}

// TestOtherClusterIsTyped: callers of this package can tell a wrong address from a broken network.
func TestOtherClusterIsTyped(t *testing.T) {
	ca, stranger := newCA(t, cluster), newCA(t, foreign)
	server := Server(NewHolder(controller(t, stranger), bundle(t, stranger)), at(now))
	got := handshake(t, server, Client(NewHolder(nil, bundle(t, ca)), at(now)))
	if !errors.Is(got.client, identity.ErrOtherCluster) || !strings.Contains(got.client.Error(), string(cluster)) {
		t.Errorf("%v, want ErrOtherCluster", got.client)
	}
}

// TestFirstContact: an agent knows the fingerprint of a CA alone.
func TestFirstContact(t *testing.T) {
	ca, sibling := newCA(t, cluster), newCA(t, cluster)
	trust := bundle(t, ca)
	shownAlone := *controller(t, ca)
	shownAlone.Certificate = shownAlone.Certificate[:1]
	// Another cluster's controller shows the CA that the agent looks for behind its own certificate.
	posing := *controller(t, sibling)
	posing.Certificate = [][]byte{posing.Certificate[0], ca.Certificate().Raw}
	for name, test := range map[string]struct {
		shown *tls.Certificate
		clock time.Time
		want  error
		says  string
	}{
		"right":             {controller(t, ca), now, nil, ""},
		"another cluster":   {controller(t, sibling), now, identity.ErrOtherCluster, "make a new token"},
		"CA is not shown":   {&shownAlone, now, identity.ErrOtherCluster, ""},
		"CA is shown alone": {&posing, now, nil, "unknown authority"},
		"a node":            {node(t, ca, "gpu1"), now, nil, "incompatible key usage"},
		"expired":           {controller(t, ca), now.Add(authority.ControllerLife + time.Minute), nil, "expired"},
		"not yet valid":     {controller(t, ca), now.Add(-2 * time.Hour), nil, "not yet valid"},
	} {
		server := Server(NewHolder(test.shown, trust), at(now))
		got := handshake(t, server, FirstContact(ca.Fingerprint(), at(test.clock)))
		good := test.want == nil && test.says == ""
		if (got.client == nil) != good || test.want != nil && !errors.Is(got.client, test.want) {
			t.Errorf("%s: %v, want %v", name, got.client, test.want)
		}
		if got.client != nil && !strings.Contains(got.client.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, got.client, test.says)
		}
		if good && !errors.Is(got.unknown, identity.ErrUnverified) {
			t.Errorf("%s: the server knows %v, %v", name, got.caller, got.unknown)
		}
	}
}

// TestChangeWhileRunning: one set of settings follows a renewed certificate and a replaced CA.
func TestChangeWhileRunning(t *testing.T) {
	ring := must(authority.NewRing(cluster, now))(t)
	prepared := must(ring.Prepare(now))(t)
	switched := must(prepared.Switch())(t)
	finished := must(switched.Finish())(t)
	old, next := ring.Signer(), switched.Signer()
	ours := NewHolder(controller(t, old), ring.Bundle())
	theirs := NewHolder(node(t, old, "gpu1"), ring.Bundle())
	server, client := Server(ours, at(now)), Client(theirs, at(now))
	for _, step := range []struct {
		name                string
		controller, node    *authority.Authority
		controllers, nodes  authority.Bundle
		connects, nodeKnown bool
	}{
		{"first", old, old, ring.Bundle(), ring.Bundle(), true, true},
		{"prepared at the controller", old, old, prepared.Bundle(), ring.Bundle(), true, true},
		{"prepared everywhere", old, old, prepared.Bundle(), prepared.Bundle(), true, true},
		{"controller renewed", next, old, switched.Bundle(), prepared.Bundle(), true, true},
		{"node renewed", next, next, switched.Bundle(), switched.Bundle(), true, true},
		{"finished", next, next, finished.Bundle(), finished.Bundle(), true, true},
		{"a node that was away", next, old, finished.Bundle(), ring.Bundle(), false, false},
		{"a node with the old certificate", next, old, finished.Bundle(), switched.Bundle(), false, false},
	} {
		ours.Set(controller(t, step.controller), step.controllers)
		theirs.Set(node(t, step.node, "gpu1"), step.nodes)
		got := handshake(t, server, client)
		err := errors.Join(got.client, got.server)
		if (err == nil) != step.connects || (got.caller.Name == "gpu1") != step.nodeKnown {
			t.Errorf("%s: %v, %v", step.name, err, got.caller)
		}
	}
}

// TestNoResumption: a second connection is a full handshake, also if the client keeps sessions.
func TestNoResumption(t *testing.T) {
	ca := newCA(t, cluster)
	server := Server(NewHolder(controller(t, ca), bundle(t, ca)), at(now))
	client := Client(NewHolder(nil, bundle(t, ca)), at(now))
	client.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	client.ServerName = "localhost" // the key of the cache
	resumed := 0
	verify := client.VerifyConnection
	client.VerifyConnection = func(state tls.ConnectionState) error {
		if state.DidResume {
			resumed++
		}
		return verify(state)
	}
	for range 3 {
		if got := handshake(t, server, client); got.client != nil {
			t.Fatal(got.client)
		}
	}
	if resumed > 0 {
		t.Errorf("%d sessions were resumed", resumed)
	}
}
