package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/words"
)

// ErrRequest means that a request for a certificate asks for something that the node may not have.
var ErrRequest = errors.New("the request for a certificate is refused")

// MaxRequestBytes is the most that a request may have. One of a node has some 300 bytes.
const MaxRequestBytes = 4096

// NewRequest makes the request (PKCS #10) of a node for a certificate.
func NewRequest(s identity.Subject, key *ecdsa.PrivateKey) ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("request a certificate: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:            subjectName(s),
		URIs:               []*url.URL{s.URI()},
		SignatureAlgorithm: x509.ECDSAWithSHA256,
	}, key)
	if err != nil {
		return nil, fmt.Errorf("request a certificate for %s: %w", s, err)
	}
	return request, nil
}

// checkRequest returns the key of a request that asks for exactly this subject. Nothing else of a
// request gets into a certificate; one that asks for more is refused so that the mistake, or the
// attack, is seen.
func checkRequest(der []byte, s identity.Subject) (*ecdsa.PublicKey, error) {
	if len(der) > MaxRequestBytes {
		return nil, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrRequest, len(der), MaxRequestBytes)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("%w: it is no PKCS #10 in DER: %s", ErrRequest, words.Clip(err.Error()))
	}
	if !isP256(request.PublicKey) {
		return nil, fmt.Errorf("%w: its key is %s; ECDSA P-256 is wanted", ErrRequest, request.PublicKeyAlgorithm)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: the requester does not have the key: %w", ErrRequest, err)
	}
	if err := checkAsked(request, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return request.PublicKey.(*ecdsa.PublicKey), nil
}

// checkAsked compares what a request asks for with what it may get.
func checkAsked(request *x509.CertificateRequest, s identity.Subject) error {
	if err := checkAskedName(request.Subject, s); err != nil {
		return err
	}
	for _, each := range request.Extensions {
		if !each.Id.Equal(alternativeNames) {
			return fmt.Errorf("it asks for the extension %s; none is allowed but the node's URI", words.Clip(each.Id.String()))
		}
		if want := uriExtension(s); !bytes.Equal(each.Value, want) {
			return fmt.Errorf("it asks for other alternative names than %s", s)
		}
	}
	return nil
}

// checkAskedName refuses a distinguished name that is not the subject's. Parts may be left out, but
// for the name of the node.
func checkAskedName(asked pkix.Name, s identity.Subject) error {
	if asked.CommonName != s.Name {
		return fmt.Errorf("it is for %q, and the caller is %s", words.Clip(asked.CommonName), s.Name)
	}
	allowed := map[string]string{
		"2.5.4.3": s.Name, "2.5.4.11": string(s.Kind), "2.5.4.10": string(s.Cluster), // CN, OU, O
	}
	for _, each := range asked.Names {
		if want, known := allowed[each.Type.String()]; !known || each.Value != want {
			return fmt.Errorf("its subject is %q; %q is wanted", words.Clip(asked.String()), subjectName(s))
		}
	}
	return nil
}

// alternativeNames is the extension that holds the URI (subjectAltName).
var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// uriExtension returns the value of an extension that names the URI of a subject alone.
func uriExtension(s identity.Subject) []byte {
	const uriTag = 6
	value, err := asn1.Marshal([]asn1.RawValue{{Tag: uriTag, Class: asn1.ClassContextSpecific, Bytes: []byte(s.String())}})
	if err != nil {
		return nil // no extension has an empty value
	}
	return value
}
