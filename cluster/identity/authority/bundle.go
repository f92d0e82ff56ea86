package authority

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

// Bundle is the CAs of one cluster that are trusted: one, or two while the CA is replaced. It holds
// no secret. The zero Bundle trusts nothing.
type Bundle struct {
	cluster      identity.ClusterID
	certificates []*x509.Certificate
}

const (
	// maxCAs is the most that a Bundle holds.
	maxCAs = 4
	// maxBundleBytes is the most text of a Bundle.
	maxBundleBytes = 16 << 10
)

// ErrBundle means that certificates are no Bundle.
var ErrBundle = errors.New("not the CAs of a cluster")

// NewBundle puts the CAs of one cluster together.
func NewBundle(certificates ...*x509.Certificate) (Bundle, error) {
	if n := len(certificates); n == 0 || n > maxCAs {
		return Bundle{}, fmt.Errorf("%w: %d certificates; 1 to %d are wanted", ErrBundle, n, maxCAs)
	}
	var b Bundle
	for _, each := range certificates {
		cluster, err := checkCA(each)
		if err != nil {
			return Bundle{}, fmt.Errorf("%w: %w", ErrBundle, err)
		}
		if b.cluster != "" && cluster != b.cluster {
			return Bundle{}, fmt.Errorf("%w: they belong to the clusters %s and %s", ErrBundle, b.cluster, cluster)
		}
		if b.Trusts(identity.FingerprintOf(each)) {
			return Bundle{}, fmt.Errorf("%w: one is there twice", ErrBundle)
		}
		b.cluster = cluster
		b.certificates = append(b.certificates, each)
	}
	return b, nil
}

// ParseBundle reads what Bundle.PEM returns.
func ParseBundle(text []byte) (Bundle, error) {
	if len(text) > maxBundleBytes {
		return Bundle{}, fmt.Errorf("%w: %d bytes", ErrBundle, len(text))
	}
	blocks, err := parseBlocks(text)
	if err != nil {
		return Bundle{}, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	var certificates []*x509.Certificate
	for _, block := range blocks {
		certificate, err := parseCertificate(block)
		if err != nil {
			return Bundle{}, fmt.Errorf("%w: %w", ErrBundle, err)
		}
		certificates = append(certificates, certificate)
	}
	return NewBundle(certificates...)
}

// Cluster returns the cluster whose members are trusted.
func (b Bundle) Cluster() identity.ClusterID { return b.cluster }

// PEM returns the certificates as text.
func (b Bundle) PEM() []byte {
	var text bytes.Buffer
	for _, each := range b.certificates {
		_ = pem.Encode(&text, &pem.Block{Type: certificateBlock, Bytes: each.Raw}) // a Buffer takes all
	}
	return text.Bytes()
}

// Fingerprints returns those of the CAs, that of the one which issues first.
func (b Bundle) Fingerprints() (all []identity.Fingerprint) {
	for _, each := range b.certificates {
		all = append(all, identity.FingerprintOf(each))
	}
	return all
}

// Trusts reports whether a CA with this key is in the Bundle.
func (b Bundle) Trusts(key identity.Fingerprint) bool {
	return slices.ContainsFunc(b.certificates, func(c *x509.Certificate) bool { return identity.FingerprintOf(c) == key })
}

// Signed reports whether the CA that issues now, which is the first, has signed a certificate.
func (b Bundle) Signed(certificate *x509.Certificate) bool {
	return len(b.certificates) > 0 && certificate.CheckSignatureFrom(b.certificates[0]) == nil
}

// Signer returns the CA that has signed a certificate; false: none of these has.
func (b Bundle) Signer(certificate *x509.Certificate) (identity.Fingerprint, bool) {
	for _, each := range b.certificates {
		if certificate.CheckSignatureFrom(each) == nil {
			return identity.FingerprintOf(each), true
		}
	}
	return identity.Fingerprint{}, false
}

// Pool returns the certificates for crypto/tls.
func (b Bundle) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, each := range b.certificates {
		pool.AddCert(each)
	}
	return pool
}

// VerifyController returns the controller that has shown these certificates as a server.
func (b Bundle) VerifyController(shown []*x509.Certificate, now time.Time) (identity.Caller, error) {
	c, err := b.verify(shown, x509.ExtKeyUsageServerAuth, now)
	if err == nil && c.Kind != identity.Controller {
		err = fmt.Errorf("%w: it is the certificate of the %s", ErrNotController, c)
	}
	if err == nil {
		// No certificate of a node has it; this check does not depend on the kind.
		err = shown[0].VerifyHostname(ServerName(b.cluster))
	}
	if err != nil {
		return identity.Caller{}, fmt.Errorf("certificate of a controller: %w", err)
	}
	return c, nil
}

// ErrNotController means that a member of the cluster that is no controller poses as one.
var ErrNotController = errors.New("not a controller")

// VerifyClient returns the node or controller that has shown these certificates as a client.
func (b Bundle) VerifyClient(shown []*x509.Certificate, now time.Time) (identity.Caller, error) {
	c, err := b.verify(shown, x509.ExtKeyUsageClientAuth, now)
	if err != nil {
		return identity.Caller{}, fmt.Errorf("certificate of a client: %w", err)
	}
	return c, nil
}

// verify returns the holder of the first certificate. The CAs sign no other CAs, so the rest of
// what was shown is not needed.
func (b Bundle) verify(shown []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) (identity.Caller, error) {
	if len(shown) == 0 {
		return identity.Caller{}, identity.ErrUnverified
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{
		Roots: b.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return identity.Caller{}, err
	}
	return identity.OfCertificate(b.cluster, chains)
}
