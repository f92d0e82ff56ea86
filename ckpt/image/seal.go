package image

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"
)

// A sealed manifest is the content of a generation's file: header, the manifest's JSON, seal.
const (
	sealedMagic       = "phosgen\n"
	sealMagic         = "phosseal"
	sealedHeaderBytes = 16 // magic, version, length of the manifest
	sealBytes         = 96 // magic, version, owner, key, tag, check
	sealedHeadBytes   = 32 // the part of the seal that the tag covers

	// MaxManifestBytes is the longest manifest.
	MaxManifestBytes = 16 << 20
	// MaxSignedBytes is the longest file of a generation.
	MaxSignedBytes = MaxManifestBytes + sealedHeaderBytes + sealBytes
	// An object of a manifest takes more memory than its shortest text. In valid manifests objects
	// are longer than this on average.
	minObjectBytes = 24
)

// Errors of seals.
var (
	// ErrUnknownKey is returned if none of the keys has sealed the manifest.
	ErrUnknownKey = errors.New("sealed with a key that is not known here")
	// ErrForged is returned if the seal is not one of its key for this manifest.
	ErrForged = errors.New("the seal does not match the manifest")
)

// KeyID identifies a key without revealing it.
type KeyID [16]byte

func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Key seals manifests.
type Key struct{ secret [32]byte }

// NewKey returns the key with a secret.
func NewKey(secret [32]byte) Key { return Key{secret} }

// GenerateKey returns a new random key.
func GenerateKey() Key {
	var k Key
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// Secret returns the secret for NewKey.
func (k Key) Secret() [32]byte { return k.secret }

// ID identifies the key.
func (k Key) ID() KeyID {
	var id KeyID
	blake3.DeriveKey("phos 2026 name of a key that seals manifests", k.secret[:], id[:])
	return id
}

// tag is the keyed BLAKE3 of parts.
func (k Key) tag(parts ...[]byte) []byte {
	h, err := blake3.NewKeyed(k.secret[:])
	if err != nil {
		panic(err) // the secret has the right length
	}
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// Seal identifies the key and the owner of a manifest.
type Seal struct {
	Key KeyID
	// OwnerUID is the only user for which the image may be restored.
	OwnerUID uint32
}

// SealManifest returns the manifest with its seal: the content of a generation's file.
func SealManifest(m *Manifest, key Key) ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	if err := checkManifest(text); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(text)+sealedHeaderBytes+sealBytes), sealedMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	out = append(out, text...)
	out = append(out, sealMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, m.Owner.UID)
	id := key.ID()
	out = append(out, id[:]...)
	out = append(out, key.tag(out)...)
	return append(out, check(32, out)...), nil
}

// ManifestText returns the exact JSON inside a sealed manifest.
func ManifestText(sealed []byte) ([]byte, error) {
	if len(sealed) < sealedHeaderBytes+sealBytes || string(sealed[:8]) != sealedMagic {
		return nil, malformed("not a manifest")
	}
	if err := checkVersion("manifest", binary.LittleEndian.Uint32(sealed[8:])); err != nil {
		return nil, err
	}
	length := uint64(binary.LittleEndian.Uint32(sealed[12:]))
	if length > MaxManifestBytes || uint64(len(sealed)) != sealedHeaderBytes+length+sealBytes {
		return nil, malformed("a manifest of %d bytes in %d", length, len(sealed))
	}
	if body := sealed[:len(sealed)-32]; !bytes.Equal(check(32, body), sealed[len(body):]) {
		return nil, malformed("the manifest's checksum is wrong")
	}
	return sealed[sealedHeaderBytes : sealedHeaderBytes+length], nil
}

// Inspect decodes a sealed manifest without checking its seal: it detects damage but no forgery.
func Inspect(sealed []byte) (*Manifest, Seal, error) {
	text, err := ManifestText(sealed)
	if err != nil {
		return nil, Seal{}, err
	}
	raw := sealed[sealedHeaderBytes+len(text):]
	if string(raw[:8]) != sealMagic {
		return nil, Seal{}, malformed("the manifest has no seal")
	}
	if err := checkVersion("seal", binary.LittleEndian.Uint32(raw[8:])); err != nil {
		return nil, Seal{}, err
	}
	seal := Seal{OwnerUID: binary.LittleEndian.Uint32(raw[12:]), Key: KeyID(raw[16:32])}
	m, err := decodeManifest(text)
	if err == nil && m.Owner.UID != seal.OwnerUID {
		err = malformed("the seal is for uid %d and the manifest for uid %d", seal.OwnerUID, m.Owner.UID)
	}
	if err != nil {
		return nil, Seal{}, err
	}
	return m, seal, nil
}

// OpenSealed decodes a manifest that must be sealed by one of the keys. The error is ErrUnknownKey
// or ErrForged if it is not.
func OpenSealed(sealed []byte, keys []Key) (*Manifest, Seal, error) {
	m, seal, err := Inspect(sealed)
	if err != nil {
		return nil, Seal{}, err
	}
	for _, key := range keys {
		if key.ID() != seal.Key {
			continue
		}
		head := sealed[:len(sealed)-sealBytes+sealedHeadBytes]
		if subtle.ConstantTimeCompare(key.tag(head), sealed[len(head):len(head)+32]) != 1 {
			return nil, Seal{}, ErrForged
		}
		return m, seal, nil
	}
	return nil, Seal{}, fmt.Errorf("%w: %s", ErrUnknownKey, seal.Key)
}

func decodeManifest(text []byte) (*Manifest, error) {
	if err := checkManifest(text); err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, malformed("manifest: %v", err)
	}
	if m.Version < 0 {
		return nil, malformed("manifest of version %d", m.Version)
	}
	return &m, checkVersion("manifest", uint32(min(uint64(m.Version), 1<<32-1)))
}

// checkManifest rejects texts that would take much more memory than their length.
func checkManifest(text []byte) error {
	if len(text) > MaxManifestBytes {
		return malformed("a manifest of %d bytes; at most %d", len(text), MaxManifestBytes)
	}
	if objects := bytes.Count(text, []byte("{")); objects*minObjectBytes > len(text)+4096 {
		return malformed("a manifest of %d objects in %d bytes", objects, len(text))
	}
	return nil
}
