package peers

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/phos-gpu/phos/internal/linux/privatefile"
)

// Times for which certificates are valid. There is no renewal by itself: Make makes new ones in
// another folder.
const (
	life = 10 * 365 * 24 * time.Hour
	// early lets a clock be behind.
	early = time.Hour
)

// maxFileBytes is the largest file that is read.
const maxFileBytes = 16 << 10

// ErrDamaged is returned for files that this package has not written.
var ErrDamaged = errors.New("not a certificate or key of this package")

// ca is the CA of a folder.
type ca struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	text        []byte // of the certificate
}

// openCA reads the CA of a folder.
func openCA(dir string) (*ca, error) {
	text, err := privatefile.Read(filepath.Join(dir, CAFile), maxFileBytes)
	if err != nil {
		return nil, err
	}
	keyText, err := privatefile.Read(filepath.Join(dir, caKeyFile), maxFileBytes)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	keyBlock, _ := pem.Decode(keyText)
	if block == nil || keyBlock == nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrDamaged)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrDamaged, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrDamaged, err)
	}
	return &ca{certificate, key, text}, nil
}

// makeCA makes the CA of a folder.
func makeCA(dir string, now time.Time) (*ca, error) {
	key, keyText, err := newKey()
	if err != nil {
		return nil, err
	}
	template := newTemplate("phos store", now)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	made := &ca{certificate: template, key: key}
	if made.text, err = made.sign(template, key.Public()); err != nil {
		return nil, err
	}
	if err := privatefile.Write(filepath.Join(dir, caKeyFile), keyText); err != nil {
		return nil, err
	}
	if err := privatefile.Write(filepath.Join(dir, CAFile), made.text); err != nil {
		return nil, err
	}
	return openCA(dir)
}

// memberTemplate is the certificate of a controller: members are servers and clients of each other.
func memberTemplate(name string, address netip.Addr, now time.Time) *x509.Certificate {
	template := newTemplate(name, now)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses = []net.IP{address.AsSlice()}
	return template
}

// newTemplate is what all certificates have in common.
func newTemplate(name string, now time.Time) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // it never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-early), NotAfter: now.Add(life),
	}
}

// sign returns a certificate as PEM.
func (ca *ca) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, public, ca.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), nil
}

// newKey makes a key, and returns it as PEM as well.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}

// Roots reads the certificates of a CA, of this package or another one, for clients.
func Roots(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %w", path, ErrDamaged)
	}
	return roots, nil
}
