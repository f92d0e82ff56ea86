package channel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
)

// TestPeers connects nodes with each other, and with what is no node.
func TestPeers(t *testing.T) {
	ca, sibling := newCA(t, cluster), newCA(t, cluster)
	trust := bundle(t, ca)
	gpu1, gpu2 := node(t, ca, "gpu1"), node(t, ca, "gpu2")
	server := func(certificate *tls.Certificate, trust authority.Bundle) *tls.Config {
		return PeerServer(NewHolder(certificate, trust), at(now))
	}
	client := func(certificate *tls.Certificate, trust authority.Bundle, clock time.Time) *tls.Config {
		return PeerClient(NewHolder(certificate, trust), at(clock), "gpu1", identity.FingerprintOf(gpu1.Leaf).String())
	}
	good := server(gpu1, trust)
	for name, test := range map[string]struct {
		server, client *tls.Config
		says           string // by one of the sides; empty: they connect
	}{
		"node":                    {good, client(gpu2, trust, now), ""},
		"itself":                  {good, client(gpu1, trust, now), ""},
		"another node answers":    {server(gpu2, trust), client(gpu2, trust, now), "not the node that is wanted"},
		"an earlier gpu1 answers": {server(node(t, ca, "gpu1"), trust), client(gpu2, trust, now), "not the node that is wanted"},
		"a controller answers":    {server(controller(t, ca), trust), client(gpu2, trust, now), "not the node that is wanted"},
		"a controller asks":       {good, client(controller(t, ca), trust, now), "not the node that is wanted"},
		"without a certificate":   {good, client(nil, trust, now), "no certificate"},
		"a user asks":             {good, connecting(at(now), func([]*x509.Certificate) error { return nil }), "certificate"},
		"of another CA":           {good, client(node(t, sibling, "gpu2"), trust, now), "unknown authority"},
		"another CA answers":      {server(node(t, sibling, "gpu1"), trust), client(gpu2, trust, now), "unknown authority"},
		"the client's has ended":  {good, client(gpu2, trust, now.Add(authority.NodeLife+time.Hour)), "expired"},
		"old TLS":                 {good, oldTLS(client(gpu2, trust, now)), "protocol version not supported"},
	} {
		got := handshake(t, test.server, test.client)
		err := errors.Join(got.client, got.server)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: client %v; server %v; want %q", name, got.client, got.server, test.says)
		}
		if err == nil && got.caller.String() != "node gpu1" && got.caller.String() != "node gpu2" {
			t.Errorf("%s: the caller is %v", name, got.caller)
		}
	}
}
