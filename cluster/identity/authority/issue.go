package authority

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

const (
	// ControllerLife is how long the certificate of a controller is valid.
	ControllerLife = 90 * 24 * time.Hour
	// NodeLife is how long the certificate of a node is valid.
	NodeLife = 30 * 24 * time.Hour
)

// ErrEnded means that the CA's own certificate has ended, or has not begun yet.
var ErrEnded = errors.New("the CA is not valid now")

// ServerName is a name that each controller of a cluster has in its certificate, and nothing else
// has. Members expect it, and not the address by which they reach the controller: an address may be
// that of a tunnel or a load balancer.
func ServerName(cluster identity.ClusterID) string {
	return "controller." + string(cluster) + ".phos.internal"
}

// Names are those by which a browser reaches a controller.
type Names struct {
	DNS []string
	IPs []net.IP
}

// IssueController issues the certificate of a controller for its public key.
func (a *Authority) IssueController(
	name string, names Names, public *ecdsa.PublicKey, now time.Time,
) (*x509.Certificate, error) {
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template := &x509.Certificate{
		ExtKeyUsage: usage,
		DNSNames:    append([]string{ServerName(a.cluster)}, names.DNS...),
		IPAddresses: names.IPs,
	}
	return a.issue(identity.Subject{Cluster: a.cluster, Kind: identity.Controller, Name: name},
		template, public, lifetime{now, ControllerLife})
}

// IssueNode issues the certificate that a node has requested. The name is the one that the caller
// has verified, by a token or by the node's present certificate: a request for another name is
// refused. Of the request only the key is used. The certificate is valid for life, usually
// NodeLife.
func (a *Authority) IssueNode(
	request []byte, name string, now time.Time, life time.Duration,
) (*x509.Certificate, error) {
	s := identity.Subject{Cluster: a.cluster, Kind: identity.Node, Name: name}
	public, err := checkRequest(request, s)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	return a.issue(s, template, public, lifetime{now, life})
}

// lifetime is from now on.
type lifetime struct {
	now   time.Time
	lasts time.Duration
}

// issue completes a template and signs it. No certificate is valid longer than the CA.
func (a *Authority) issue(
	s identity.Subject, template *x509.Certificate, public *ecdsa.PublicKey, life lifetime,
) (*x509.Certificate, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	if !isP256(public) {
		return nil, fmt.Errorf("issue a certificate for %s: the key is not ECDSA P-256", s)
	}
	if life.now.Before(a.certificate.NotBefore) || life.now.After(a.certificate.NotAfter) {
		return nil, fmt.Errorf("issue a certificate for %s: %w: it is from %s to %s",
			s, ErrEnded, a.certificate.NotBefore, a.certificate.NotAfter)
	}
	template.Subject = subjectName(s)
	template.URIs = []*url.URL{s.URI()}
	template.NotBefore = latest(life.now.Add(-min(skew, life.lasts/10)), a.certificate.NotBefore)
	template.NotAfter = earliest(life.now.Add(life.lasts), a.certificate.NotAfter)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	certificate, err := sign(template, a.certificate, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", s, err)
	}
	return certificate, nil
}

// subjectName is the distinguished name of a certificate.
func subjectName(s identity.Subject) pkix.Name {
	return pkix.Name{
		CommonName: s.Name, OrganizationalUnit: []string{string(s.Kind)}, Organization: []string{string(s.Cluster)},
	}
}

// earliest returns the time that comes first.
func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// latest returns the time that comes last.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RenewAt returns when the holder of a certificate asks for the next one: between the half and two
// thirds of its life. The time depends on the key, so that nodes which joined together do not all
// come together again.
func RenewAt(certificate *x509.Certificate) time.Time {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	f := identity.FingerprintOf(certificate)
	spread := life / 6
	share := float64(binary.BigEndian.Uint32(f[:4])) / (1 << 32)
	return certificate.NotBefore.Add(life/2 + time.Duration(share*float64(spread)))
}
