package authority

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

// TestVerify crosses certificates with uses and times.
func TestVerify(t *testing.T) {
	ca, sibling, stranger := newCA(t, cluster), newCA(t, cluster), newCA(t, foreign)
	b := newBundle(t, ca)
	node, controller := newNode(t, ca, "gpu1"), newController(t, ca, "c1")
	asNode := identity.Caller{Kind: identity.Node, Name: "gpu1", Key: identity.FingerprintOf(node.Certificate)}
	asController := identity.Caller{Kind: identity.Controller, Name: "c1"}
	asController.Key = identity.FingerprintOf(controller.Certificate)
	siblingNode, strangeNode := newNode(t, sibling, "gpu1").shown(), newNode(t, stranger, "gpu1").shown()
	strangeController := newController(t, stranger, "c1").shown()
	var none identity.Caller
	caAlone := []*x509.Certificate{ca.certificate}
	server, client := b.VerifyController, b.VerifyClient
	for name, test := range map[string]struct {
		verify func([]*x509.Certificate, time.Time) (identity.Caller, error)
		shown  []*x509.Certificate
		at     time.Time
		want   identity.Caller
		says   string
	}{
		"node":                     {client, node.shown(), now, asNode, ""},
		"controller as a client":   {client, controller.shown(), now, asController, ""},
		"controller":               {server, controller.shown(), now, asController, ""},
		"the leaf alone":           {server, controller.shown()[:1], now, asController, ""},
		"node as a controller":     {server, node.shown(), now, none, "incompatible key usage"},
		"nothing":                  {client, nil, now, none, "no verified certificate"},
		"the CA itself":            {client, caAlone, now, none, "no verified certificate"},
		"the CA as a controller":   {server, caAlone, now, none, "no verified certificate"},
		"clock 59 minutes behind":  {client, node.shown(), now.Add(-59 * time.Minute), asNode, ""},
		"clock 61 minutes behind":  {client, node.shown(), now.Add(-61 * time.Minute), none, "not yet valid"},
		"the last minute":          {client, node.shown(), now.Add(NodeLife - time.Minute), asNode, ""},
		"expired":                  {client, node.shown(), now.Add(NodeLife + time.Minute), none, "expired"},
		"controller expired":       {server, controller.shown(), now.Add(ControllerLife + time.Minute), none, "expired"},
		"another CA's":             {client, siblingNode, now, none, "unknown authority"},
		"another cluster's":        {client, strangeNode, now, none, "unknown authority"},
		"another cluster's server": {server, strangeController, now, none, "unknown authority"},
	} {
		got, err := test.verify(test.shown, test.at)
		if got != test.want || (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %+v, %v, want %+v, %q", name, got, err, test.want, test.says)
		}
	}
	if got, err := (Bundle{}).VerifyClient(node.shown(), now); err == nil {
		t.Errorf("a bundle without CAs: %v", got)
	}
}

// TestForged: certificates that the CA has signed, but that this package does not issue. A mistake
// in another part must not make a node a controller.
func TestForged(t *testing.T) {
	ca := newCA(t, cluster)
	b := newBundle(t, ca)
	for name, change := range map[string]func(*x509.Certificate){
		"node with server usage": func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		},
		"node with the name of controllers": func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
			c.DNSNames = []string{ServerName(cluster)}
		},
		"no usage at all": func(c *x509.Certificate) { c.ExtKeyUsage = nil },
	} {
		got, err := b.VerifyController(forge(t, ca, nodeOf(cluster, "gpu1"), change), now)
		if err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	controller := identity.Subject{Cluster: cluster, Kind: identity.Controller, Name: "c1"}
	for name, names := range map[string][]string{
		"controller without the name": nil, "controller with another's": {ServerName(foreign)},
	} {
		shown := forge(t, ca, controller, func(c *x509.Certificate) {
			c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names
		})
		if got, err := b.VerifyController(shown, now); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, change := range map[string]func(*x509.Certificate){
		"no URI":           func(c *x509.Certificate) { c.URIs = nil },
		"two URIs":         func(c *x509.Certificate) { c.URIs = append(c.URIs, nodeOf(cluster, "gpu2").URI()) },
		"another name":     func(c *x509.Certificate) { c.Subject.CommonName = "gpu2" },
		"another unit":     func(c *x509.Certificate) { c.Subject.OrganizationalUnit = []string{"controller"} },
		"two units":        func(c *x509.Certificate) { c.Subject.OrganizationalUnit = []string{"node", "controller"} },
		"another kind":     func(c *x509.Certificate) { c.URIs[0].Path = "/user/gpu1" },
		"another cluster":  func(c *x509.Certificate) { c.URIs[0].Host = string(foreign) },
		"server only":      func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		"begins later":     func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) },
		"has ended":        func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) },
		"unknown critical": func(c *x509.Certificate) { c.ExtraExtensions = append(c.ExtraExtensions, unknownCritical) },
	} {
		got, err := b.VerifyClient(forge(t, ca, nodeOf(cluster, "gpu1"), change), now)
		if err == nil || got != (identity.Caller{}) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := b.VerifyClient(forge(t, ca, nodeOf(foreign, "gpu1"), func(*x509.Certificate) {}), now)
	if !errors.Is(err, identity.ErrOtherCluster) {
		t.Errorf("a certificate for another cluster: %v, want ErrOtherCluster", err)
	}
}

// TestIntermediate: a node signs a certificate for a controller, and shows its own as the CA.
func TestIntermediate(t *testing.T) {
	ca := newCA(t, cluster)
	node := newNode(t, ca, "gpu1")
	key := must(NewKey())(t)
	fake := &Authority{node.Certificate, node.Key, cluster}
	certificate := must(fake.IssueController("c1", Names{}, &key.PublicKey, now))(t)
	shown := []*x509.Certificate{certificate, node.Certificate, ca.certificate}
	if got, err := newBundle(t, ca).VerifyController(shown, now); err == nil {
		t.Errorf("%v", got)
	}
	// A second CA under the first one.
	caKey := must(NewKey())(t)
	below := must(sign(&x509.Certificate{
		Subject: ca.certificate.Subject, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}, ca.certificate, &caKey.PublicKey, ca.key))(t)
	fake = &Authority{below, caKey, cluster}
	certificate = must(fake.IssueController("c1", Names{}, &key.PublicKey, now))(t)
	shown = []*x509.Certificate{certificate, below, ca.certificate}
	if got, err := newBundle(t, ca).VerifyController(shown, now); err == nil {
		t.Errorf("%v", got)
	}
	if _, err := NewBundle(below); !errors.Is(err, ErrNotCA) {
		t.Errorf("%v, want ErrNotCA", err)
	}
}
