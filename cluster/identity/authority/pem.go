package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/internal/words"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// encodeCertificate returns a certificate in PEM.
func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: certificate.Raw})
}

// encodeKey returns a key in PEM.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// maxBlocks is the most that a text in PEM may have.
const maxBlocks = 8

// parseBlocks returns the parts of a text in PEM, with nothing between them but space.
func parseBlocks(text []byte) (blocks []*pem.Block, err error) {
	for text = bytes.TrimSpace(text); len(text) > 0; text = bytes.TrimSpace(text) {
		if !bytes.HasPrefix(text, []byte("-----BEGIN ")) || len(blocks) == maxBlocks {
			return nil, errors.New("the text is not in PEM alone")
		}
		block, rest := pem.Decode(text)
		if block == nil || len(block.Headers) > 0 || len(rest) >= len(text) {
			return nil, errors.New("a part in PEM is damaged")
		}
		blocks, text = append(blocks, block), rest
	}
	return blocks, nil
}

// parseCertificate reads the certificate of a block.
func parseCertificate(block *pem.Block) (*x509.Certificate, error) {
	if block.Type != certificateBlock {
		return nil, fmt.Errorf("there is a part %s; a certificate is wanted", words.Clip(block.Type))
	}
	return x509.ParseCertificate(block.Bytes)
}

// decodeCertificate reads a text that holds one certificate.
func decodeCertificate(text []byte) (*x509.Certificate, error) {
	blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	if len(blocks) != 1 {
		return nil, fmt.Errorf("%s; one certificate is wanted", words.CountOf(len(blocks), "part"))
	}
	return parseCertificate(blocks[0])
}

// decodeKey reads a text that holds one key.
func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	if len(blocks) != 1 {
		return nil, fmt.Errorf("%s; one key is wanted", words.CountOf(len(blocks), "part"))
	}
	return parseKey(blocks[0])
}

// parseKey reads the key of a block.
func parseKey(block *pem.Block) (*ecdsa.PrivateKey, error) {
	if block.Type != keyBlock {
		return nil, fmt.Errorf("there is a part %s; a key is wanted", words.Clip(block.Type))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !isP256(&key.PublicKey) {
		return nil, errors.New("the key is not ECDSA P-256")
	}
	return key, nil
}
