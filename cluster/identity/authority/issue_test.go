package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
)

func TestCreateRefuses(t *testing.T) {
	if _, err := Create("A", now); !errors.Is(err, identity.ErrBadName) {
		t.Errorf("%v, want ErrBadName", err)
	}
	ca := newCA(t, cluster)
	key := must(NewKey())(t)
	if _, err := ca.IssueController("a/b", Names{}, &key.PublicKey, now); !errors.Is(err, identity.ErrBadName) {
		t.Errorf("%v, want ErrBadName", err)
	}
	large := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	if _, err := ca.IssueController("c1", Names{}, &large.PublicKey, now); err == nil {
		t.Error("a certificate for a key of P-384")
	}
	if _, err := NewRequest(nodeOf(cluster, "A"), key); !errors.Is(err, identity.ErrBadName) {
		t.Errorf("%v, want ErrBadName", err)
	}
}

// TestNotLongerThanCA: near its end the CA issues shorter certificates, and then none.
func TestNotLongerThanCA(t *testing.T) {
	ca := newCA(t, cluster)
	end := now.AddDate(10, 0, 0)
	key := must(NewKey())(t)
	for _, test := range []struct {
		at   time.Time
		want time.Time
	}{
		{now.Add(-time.Hour), now.Add(-time.Hour).Add(ControllerLife)},
		{end.Add(-ControllerLife), end},
		{end.Add(-time.Hour), end},
	} {
		certificate := must(ca.IssueController("c1", Names{}, &key.PublicKey, test.at))(t)
		if !certificate.NotAfter.Equal(test.want) || certificate.NotBefore.Before(ca.certificate.NotBefore) {
			t.Errorf("at %v: from %v to %v, want to %v", test.at, certificate.NotBefore, certificate.NotAfter, test.want)
		}
	}
	for _, at := range []time.Time{end.Add(time.Second), now.Add(-time.Hour - time.Second)} {
		if _, err := ca.IssueController("c1", Names{}, &key.PublicKey, at); !errors.Is(err, ErrEnded) {
			t.Errorf("at %v: %v, want ErrEnded", at, err)
		}
	}
}

func TestRenewAt(t *testing.T) {
	ca := newCA(t, cluster)
	seen := map[time.Time]bool{}
	for range 20 {
		certificate := newNode(t, ca, "gpu1").Certificate
		life := certificate.NotAfter.Sub(certificate.NotBefore)
		at := RenewAt(certificate)
		if at.Before(certificate.NotBefore.Add(life/2)) || !at.Before(certificate.NotBefore.Add(life*2/3)) {
			t.Errorf("%v is not between a half and two thirds of %v to %v", at, certificate.NotBefore, certificate.NotAfter)
		}
		if again := RenewAt(certificate); !again.Equal(at) {
			t.Errorf("%v, then %v", at, again)
		}
		seen[at] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 nodes renew at %d times", len(seen))
	}
}

// TestSerials: no two certificates of a CA have the same number.
func TestSerials(t *testing.T) {
	ca := newCA(t, cluster)
	seen := map[string]bool{ca.certificate.SerialNumber.String(): true}
	for range 20 {
		number := newNode(t, ca, "gpu1").Certificate.SerialNumber
		if seen[number.String()] || number.BitLen() < 64 || number.Sign() <= 0 {
			t.Errorf("number %v", number)
		}
		seen[number.String()] = true
	}
}

// request makes a request with any key, and changes it before it is signed.
func request(t *testing.T, key crypto.Signer, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	s := nodeOf(cluster, "gpu1")
	template := &x509.CertificateRequest{Subject: subjectName(s), URIs: []*url.URL{s.URI()}}
	change(template)
	return must(x509.CreateCertificateRequest(rand.Reader, template, key))(t)
}

// TestHostileRequests: what a node may try to get.
func TestHostileRequests(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	ca := newCA(t, cluster)
	key := must(NewKey())(t)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	same := func(*x509.CertificateRequest) {}
	good := request(t, key, same)
	if _, err := ca.IssueNode(good, "gpu1", now, NodeLife); err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-1] ^= 1
	extension := func(id ...int) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) {
			r.ExtraExtensions = append(r.ExtraExtensions, pkix.Extension{Id: id, Value: []byte{0x30, 3, 1, 1, 0xff}})
		}
	}
	requests := map[string][]byte{
		"nothing":              nil,
		"no request":           []byte("-----BEGIN CERTIFICATE REQUEST-----"),
		"a certificate":        ca.certificate.Raw,
		"something behind it":  append(append([]byte(nil), good...), 0),
		"cut off":              good[:len(good)-1],
		"another's signature":  flipped,
		"huge":                 append(append([]byte(nil), good...), make([]byte, 1<<20)...),
		"RSA of 512 bits":      request(t, must(rsa.GenerateKey(rand.Reader, 512))(t), same),
		"RSA of 2048 bits":     request(t, must(rsa.GenerateKey(rand.Reader, 2048))(t), same),
		"P-384":                request(t, must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t), same),
		"P-224":                request(t, must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))(t), same),
		"Ed25519":              request(t, edwards, same),
		"CA:TRUE":              request(t, key, extension(2, 5, 29, 19)),
		"key usage":            request(t, key, extension(2, 5, 29, 15)),
		"extended key usage":   request(t, key, extension(2, 5, 29, 37)),
		"an unknown extension": request(t, key, extension(1, 2, 3, 4)),
	}
	for name, change := range map[string]func(*x509.CertificateRequest){
		"a huge name": func(r *x509.CertificateRequest) { r.Subject.CommonName = strings.Repeat("a", 5000) },
		"many names": func(r *x509.CertificateRequest) {
			r.DNSNames = strings.Split(strings.Repeat("a,", 500)+"a", ",")
		},
		"another node": func(r *x509.CertificateRequest) { r.Subject.CommonName = "gpu2" },
		"no name":      func(r *x509.CertificateRequest) { r.Subject.CommonName = "" },
		"a controller": func(r *x509.CertificateRequest) {
			r.Subject.OrganizationalUnit = []string{"controller"}
		},
		"another cluster": func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{string(foreign)}
		},
		"a country":          func(r *x509.CertificateRequest) { r.Subject.Country = []string{"DE"} },
		"another node's URI": func(r *x509.CertificateRequest) { r.URIs[0] = nodeOf(cluster, "gpu2").URI() },
		"one more URI": func(r *x509.CertificateRequest) {
			r.URIs = append(r.URIs, nodeOf(cluster, "gpu2").URI())
		},
		"a controller's URI": func(r *x509.CertificateRequest) { r.URIs[0].Path = "/controller/gpu1" },
		"the controllers' name": func(r *x509.CertificateRequest) {
			r.DNSNames = []string{ServerName(cluster)}
		},
		"an address": func(r *x509.CertificateRequest) {
			r.IPAddresses = append(r.IPAddresses, []byte{127, 0, 0, 1})
		},
		"a mail address": func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"root@example.org"} },
	} {
		requests[name] = request(t, key, change)
	}
	for name, der := range requests {
		certificate, err := ca.IssueNode(der, "gpu1", now, NodeLife)
		if !errors.Is(err, ErrRequest) || certificate != nil {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		} else if large := len(der) > MaxRequestBytes; large != strings.Contains(err.Error(), "at most 4096") {
			t.Errorf("%s, %d bytes: %v", name, len(der), err) // it must not be parsed
		}
	}
	if _, err := ca.IssueNode(good, "gpu2", now, NodeLife); !errors.Is(err, ErrRequest) {
		t.Errorf("for another caller: %v, want ErrRequest", err)
	}
}

// FuzzRequest checks that every accepted request gives a certificate for the caller's name alone.
func FuzzRequest(f *testing.F) {
	ca := newCA(f, cluster)
	s := nodeOf(cluster, "gpu1")
	f.Add(must(NewRequest(s, must(NewKey())(f)))(f))
	f.Add(ca.certificate.Raw)
	f.Add([]byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, der []byte) {
		certificate, err := ca.IssueNode(der, "gpu1", now, NodeLife)
		if err != nil {
			return
		}
		if got, err := identity.SubjectOf(certificate); err != nil || got != s || certificate.IsCA {
			t.Fatalf("%v, %v", got, err)
		}
	})
}
