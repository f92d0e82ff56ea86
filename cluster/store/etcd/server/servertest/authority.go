package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store/etcd/server"
)

// Authority signs certificates for members and clients on this machine.
type Authority struct {
	dir string
	// address is one of this machine that no other test has, and ports counts those in use.
	address     netip.Addr
	ports       atomic.Int32
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority whose files are in a directory of the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: Dir(t), key: newKey(t), address: loopback()}
	template := a.template("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.certificate = a.sign(t, template, template, a.key)
	a.write(t, "authority.crt", "CERTIFICATE", a.certificate.Raw)
	return a
}

// Issue writes a certificate with a common name, and returns its files.
func (a *Authority) Issue(t testing.TB, name string) server.TLS {
	t.Helper()
	key := newKey(t)
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := a.sign(t, a.template(name), a.certificate, key)
	return server.TLS{
		Cert: a.write(t, name+".crt", "CERTIFICATE", certificate.Raw),
		Key:  a.write(t, name+".key", "EC PRIVATE KEY", encoded),
		CA:   filepath.Join(a.dir, "authority.crt"),
	}
}

// Client returns the configuration of a client with a certificate, or without one if name is empty.
func (a *Authority) Client(t testing.TB, name string) *tls.Config {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.certificate)
	if name == "" {
		return config
	}
	files := a.Issue(t, name)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config
}

// sign makes a certificate for a key.
func (a *Authority) sign(t testing.TB, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// write writes a file in PEM, and returns its path.
func (a *Authority) write(t testing.TB, name, kind string, raw []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// template is what all certificates have in common. Connections come from 127.0.0.1.
func (a *Authority) template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), a.address.AsSlice()},
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
