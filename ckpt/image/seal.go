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

// A signed manifest, the content of a generation's file: header, the manifest's JSON, seal.
const (
	signedMagic       = "phosgen\n"
	sealMagic         = "phosseal"
	signedHeaderBytes = 16 // magic, version, length of the manifest
	sealBytes         = 96 // magic, version, owner, key, tag, check
	sealedHeadBytes   = 32 // the seal's part that the tag covers as well

	// MaxManifestBytes is the longest manifest.
	MaxManifestBytes = 16 << 20
	// MaxSignedBytes is the longest file of a generation.
	MaxSignedBytes = MaxManifestBytes + signedHeaderBytes + sealBytes
	// An object of a manifest takes more memory than its shortest text; real ones are longer than this
	// on average.
	leastObjectBytes = 24
)

// Errors of seals.
var (
	// ErrUnknownKey means that a manifest was sealed with a key that is not here.
	ErrUnknownKey = errors.New("sealed with a key that is not known here")
	// ErrForged means a seal that its key did not make, or not for this manifest.
	ErrForged = errors.New("the seal does not belong to the manifest")
)

// KeyID names a key and does not tell it.
type KeyID [16]byte

func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Key seals manifests.
type Key struct{ secret [32]byte }

// NewKey makes a key of its secret.
func NewKey(secret [32]byte) Key { return Key{secret} }

// GenerateKey makes a new key.
func GenerateKey() Key {
	var k Key
	_, _ = rand.Read(k.secret[:]) // it never fails
	return k
}

// Secret is what NewKey makes the key of again.
func (k Key) Secret() [32]byte { return k.secret }

// ID names the key.
func (k Key) ID() KeyID {
	var id KeyID
	blake3.DeriveKey("phos 2026 name of a key that seals manifests", k.secret[:], id[:])
	return id
}

// tag is the keyed BLAKE3 of parts.
func (k Key) tag(parts ...[]byte) []byte {
	h, err := blake3.NewKeyed(k.secret[:])
	if err != nil {
		panic(err) // a secret is always as long as it must be
	}
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// Seal says who vouches for a manifest.
type Seal struct {
	Key KeyID
	// OwnerUID is the user for whom the image may be restored.
	OwnerUID uint32
}

// Sign returns the manifest and its seal, as a generation's file holds them.
func Sign(m *Manifest, key Key) ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	if err := checkManifest(text); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(text)+signedHeaderBytes+sealBytes), signedMagic...)
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

// ManifestText returns the exact JSON within a signed manifest.
func ManifestText(signed []byte) ([]byte, error) {
	if len(signed) < signedHeaderBytes+sealBytes || string(signed[:8]) != signedMagic {
		return nil, malformed("this is no manifest")
	}
	if err := checkVersion("manifest", binary.LittleEndian.Uint32(signed[8:])); err != nil {
		return nil, err
	}
	length := uint64(binary.LittleEndian.Uint32(signed[12:]))
	if length > MaxManifestBytes || uint64(len(signed)) != signedHeaderBytes+length+sealBytes {
		return nil, malformed("a manifest of %d bytes in %d", length, len(signed))
	}
	if body := signed[:len(signed)-32]; !bytes.Equal(check(32, body), signed[len(body):]) {
		return nil, malformed("the manifest's check sum is wrong")
	}
	return signed[signedHeaderBytes : signedHeaderBytes+length], nil
}

// Inspect reads a signed manifest and trusts its seal, whoever made it: damage is found, forgery is
// not.
func Inspect(signed []byte) (*Manifest, Seal, error) {
	text, err := ManifestText(signed)
	if err != nil {
		return nil, Seal{}, err
	}
	raw := signed[signedHeaderBytes+len(text):]
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

// OpenSigned reads a signed manifest that one of the keys must have sealed. The error is
// ErrUnknownKey or ErrForged when none has.
func OpenSigned(signed []byte, keys []Key) (*Manifest, Seal, error) {
	m, seal, err := Inspect(signed)
	if err != nil {
		return nil, Seal{}, err
	}
	for _, key := range keys {
		if key.ID() != seal.Key {
			continue
		}
		head := signed[:len(signed)-sealBytes+sealedHeadBytes]
		if subtle.ConstantTimeCompare(key.tag(head), signed[len(head):len(head)+32]) != 1 {
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

// checkManifest refuses what would take much more memory than its text.
func checkManifest(text []byte) error {
	if len(text) > MaxManifestBytes {
		return malformed("a manifest of %d bytes; at most %d", len(text), MaxManifestBytes)
	}
	if objects := bytes.Count(text, []byte("{")); objects*leastObjectBytes > len(text)+4096 {
		return malformed("a manifest of %d objects in %d bytes", objects, len(text))
	}
	return nil
}
