package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/internal/linux/privatefile"
)

// Pair is a certificate with its key and the CA that has issued it: what a node or controller
// shows.
type Pair struct {
	Certificate *x509.Certificate
	CA          *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// ErrPair means that a certificate, its key and its CA do not belong together.
var ErrPair = errors.New("certificate, key and CA do not belong together")

// check returns ErrPair.
func (p Pair) check() error {
	if !p.Key.PublicKey.Equal(p.Certificate.PublicKey) {
		return fmt.Errorf("%w: the key is another certificate's", ErrPair)
	}
	if err := p.Certificate.CheckSignatureFrom(p.CA); err != nil {
		return fmt.Errorf("%w: %w", ErrPair, err)
	}
	return nil
}

// TLS returns the pair for crypto/tls. The CA is shown, too: a node that joins knows nothing but
// the fingerprint of the CA.
func (p Pair) TLS() *tls.Certificate {
	return &tls.Certificate{
		Certificate: [][]byte{p.Certificate.Raw, p.CA.Raw}, PrivateKey: p.Key, Leaf: p.Certificate,
	}
}

// SavePair writes a pair to one file of mode 0600, so that certificate and key change together.
func SavePair(path string, p Pair) error {
	key, err := encodeKey(p.Key)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	text := bytes.Join([][]byte{encodeCertificate(p.Certificate), encodeCertificate(p.CA), key}, nil)
	return privatefile.Write(path, text)
}

// maxPairBytes is the most text of a pair.
const maxPairBytes = 32 << 10

// LoadPair reads what SavePair has written. A file that others can read is privatefile.ErrExposed.
func LoadPair(path string) (Pair, error) {
	text, err := privatefile.Read(path, maxPairBytes)
	if err != nil {
		return Pair{}, err
	}
	p, err := parsePair(text)
	if err != nil {
		return Pair{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// parsePair reads the text of a pair.
func parsePair(text []byte) (p Pair, err error) {
	blocks, err := parseBlocks(text)
	if err != nil {
		return Pair{}, err
	}
	if len(blocks) != 3 {
		return Pair{}, fmt.Errorf("%w: want a certificate, its CA, and the key", ErrPair)
	}
	if p.Certificate, err = parseCertificate(blocks[0]); err != nil {
		return Pair{}, err
	}
	if p.CA, err = parseCertificate(blocks[1]); err != nil {
		return Pair{}, err
	}
	if p.Key, err = parseKey(blocks[2]); err != nil {
		return Pair{}, err
	}
	return p, p.check()
}
