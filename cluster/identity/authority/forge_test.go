package authority

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

// unknownCritical is an extension that no verifier knows, and that none may skip.
var unknownCritical = pkix.Extension{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}

// forge signs a changed certificate of a subject with the CA's key.
func forge(
	t *testing.T, ca *Authority, s identity.Subject, change func(*x509.Certificate),
) []*x509.Certificate {
	t.Helper()
	key := must(NewKey())(t)
	template := &x509.Certificate{
		Subject: subjectName(s), URIs: []*url.URL{s.URI()}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
	change(template)
	return []*x509.Certificate{must(sign(template, ca.certificate, &key.PublicKey, ca.key))(t), ca.certificate}
}
