package digest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// NewKey makes a key.
func NewKey() (key gpu.DigestKey) {
	_, _ = rand.Read(key[:]) // never fails: the process would end
	return key
}

// Func digests contents under one key. It is safe for concurrent use.
type Func struct{ aead cipher.AEAD }

// New makes the function of a key.
func New(key gpu.DigestKey) Func {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only a key of another length is refused
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the block size that GCM wants
	}
	return Func{aead}
}

// Of returns the digest of a content.
func (f Func) Of(content []byte) (d gpu.Digest) {
	var nonce [12]byte
	f.aead.Seal(d[:0], nonce[:], nil, content)
	return d
}
