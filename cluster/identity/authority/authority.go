package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

// Authority is a CA with its key.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	cluster     identity.ClusterID
}

const (
	// caYears is how long a CA is valid.
	caYears = 10
	// skew is how much earlier than now a certificate begins, for clocks that are behind.
	skew = time.Hour
	// caName is the common name of every CA. Its organization is the id of the cluster.
	caName = "phos cluster CA"
)

// ErrNotCA means that a certificate is not one of a cluster's CA.
var ErrNotCA = errors.New("not the certificate of a cluster's CA")

// Create makes a new CA for a cluster. The system's randomness makes the key.
func Create(cluster identity.ClusterID, now time.Time) (*Authority, error) {
	if err := cluster.Check(); err != nil {
		return nil, fmt.Errorf("create a CA: %w", err)
	}
	key, err := NewKey()
	if err != nil {
		return nil, fmt.Errorf("create a CA: %w", err)
	}
	certificate, err := sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: caName, Organization: []string{string(cluster)}},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.AddDate(caYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs no other CA
	}, nil, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("create a CA: %w", err)
	}
	return &Authority{certificate, key, cluster}, nil
}

// NewKey makes a key of the only kind that certificates of a cluster have.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// sign makes a certificate; without a parent it is signed by itself. Its serial number is random.
func sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey,
) (*x509.Certificate, error) {
	template.SignatureAlgorithm = x509.ECDSAWithSHA256
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newAuthority puts a certificate and its key together.
func newAuthority(certificate *x509.Certificate, key *ecdsa.PrivateKey) (*Authority, error) {
	cluster, err := checkCA(certificate)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("%w: the key belongs to another certificate", ErrNotCA)
	}
	return &Authority{certificate, key, cluster}, nil
}

// checkCA returns the cluster of a CA's certificate. The certificate may have expired.
func checkCA(certificate *x509.Certificate) (identity.ClusterID, error) {
	organization := certificate.Subject.Organization
	switch {
	case !certificate.IsCA || certificate.KeyUsage&x509.KeyUsageCertSign == 0:
		return "", fmt.Errorf("%w: it may not sign others", ErrNotCA)
	case len(organization) != 1 || certificate.Subject.CommonName != caName:
		return "", fmt.Errorf("%w: its subject is another one", ErrNotCA)
	case !isP256(certificate.PublicKey):
		return "", fmt.Errorf("%w: its key is not ECDSA P-256", ErrNotCA)
	}
	if err := certificate.CheckSignatureFrom(certificate); err != nil {
		return "", fmt.Errorf("%w: it is not signed by itself: %w", ErrNotCA, err)
	}
	cluster := identity.ClusterID(organization[0])
	if err := cluster.Check(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotCA, err)
	}
	return cluster, nil
}

// isP256 reports whether a public key is of the only kind that is used.
func isP256(public any) bool {
	key, ok := public.(*ecdsa.PublicKey)
	return ok && key.Curve == elliptic.P256()
}

// Cluster returns the cluster that the CA belongs to.
func (a *Authority) Cluster() identity.ClusterID { return a.cluster }

// Certificate returns that of the CA, which is no secret.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// Fingerprint returns that of the CA's key, which tokens for joining name.
func (a *Authority) Fingerprint() identity.Fingerprint { return identity.FingerprintOf(a.certificate) }
