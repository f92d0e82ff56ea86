package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
)

// Subject is what a certificate is issued for: a node or a controller of one cluster. Its text is a
// URI, phos://CLUSTER/node/NAME, which the certificate has as its only URI.
type Subject struct {
	Cluster ClusterID
	Kind    Kind // Node or Controller
	Name    string
}

// ErrBadSubject means that a URI names no Subject.
var ErrBadSubject = errors.New("no identity of phos")

const scheme = "phos"

// Check returns an error if a field is invalid.
func (s Subject) Check() error {
	if s.Kind != Node && s.Kind != Controller {
		return fmt.Errorf("%w: certificates are for nodes and controllers, not for a %q",
			ErrBadSubject, words.Clip(string(s.Kind)))
	}
	return errors.Join(s.Cluster.Check(), CheckNodeName(s.Name))
}

// URI returns the text of a valid Subject.
func (s Subject) URI() *url.URL {
	return &url.URL{Scheme: scheme, Host: string(s.Cluster), Path: "/" + string(s.Kind) + "/" + s.Name}
}

func (s Subject) String() string { return s.URI().String() }

// ParseURI is the inverse of Subject.URI. There is one text for each Subject, and all others are
// ErrBadSubject.
func ParseURI(uri *url.URL) (Subject, error) {
	kind, name, _ := strings.Cut(strings.TrimPrefix(uri.Path, "/"), "/")
	s := Subject{Cluster: ClusterID(uri.Host), Kind: Kind(kind), Name: name}
	if err := s.Check(); err != nil {
		return Subject{}, fmt.Errorf("%w: %w", ErrBadSubject, err)
	}
	if text := uri.String(); text != s.String() {
		return Subject{}, fmt.Errorf("%w: %q is not %q", ErrBadSubject, words.Clip(text), s)
	}
	return s, nil
}

// SubjectOf returns what a certificate was issued for. It does not verify the certificate.
func SubjectOf(certificate *x509.Certificate) (Subject, error) {
	if n := len(certificate.URIs); n != 1 {
		return Subject{}, fmt.Errorf("%w: the certificate has %s", ErrBadSubject, words.CountOf(n, "URI"))
	}
	s, err := ParseURI(certificate.URIs[0])
	if err != nil {
		return Subject{}, err
	}
	units := certificate.Subject.OrganizationalUnit
	if certificate.Subject.CommonName != s.Name || len(units) != 1 || units[0] != string(s.Kind) {
		return Subject{}, fmt.Errorf("%w: the subject of the certificate, %s, is not that of %s",
			ErrBadSubject, words.Clip(certificate.Subject.String()), s)
	}
	return s, nil
}

// Fingerprint is the SHA-256 of a public key (SubjectPublicKeyInfo). It stays the same when a
// certificate is renewed for the same key.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns that of a certificate's key.
func FingerprintOf(certificate *x509.Certificate) Fingerprint {
	return sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
}

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// MarshalText returns the digits of a Fingerprint.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads 64 digits.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(f[:], text[:min(len(text), 2*len(f))]); err != nil || n != len(f) || len(text) != 2*n {
		return fmt.Errorf("fingerprint %q: want %d hexadecimal digits", words.Clip(string(text)), 2*len(f))
	}
	return nil
}
