package image

import (
	"bytes"
	"errors"
	"testing"

	"github.com/zeebo/blake3"
)

func TestSum(t *testing.T) {
	for _, bytes := range []int{0, 1, 4096, 5000, ChunkBytes} {
		content := make([]byte, bytes)
		if h := Sum(content); !h.IsZero() {
			t.Errorf("hash of %d zeros: %s", bytes, h)
		}
		if bytes == 0 {
			continue
		}
		content[bytes-1] = 1
		if h := Sum(content); h != blake3.Sum256(content) {
			t.Errorf("hash of %d bytes: %s", bytes, h)
		}
	}
}

func TestInvalidTrees(t *testing.T) {
	for name, spoil := range map[string]func(*Tree){
		"no name":             func(t *Tree) { t.Entries[0].Name = "" },
		"a NUL in the name":   func(t *Tree) { t.Entries[0].Name = "a\x00" },
		"order":               func(t *Tree) { t.Entries[0], t.Entries[1] = t.Entries[1], t.Entries[0] },
		"twice":               func(t *Tree) { t.Entries[1].Name = t.Entries[0].Name },
		"kind":                func(t *Tree) { t.Entries[0].Kind = 3 },
		"length of memory":    func(t *Tree) { t.Entries[0].Bytes++ },
		"empty chunk":         func(t *Tree) { t.Entries[0].Chunks[1].Bytes = 0 },
		"across a boundary":   func(t *Tree) { t.Entries[0].Chunks[0].Address++ },
		"overlap":             func(t *Tree) { t.Entries[0].Chunks[1].Address = 2*ChunkBytes + 7 },
		"length of file":      func(t *Tree) { t.Entries[1].Bytes++ },
		"huge file":           func(t *Tree) { t.Entries[1].Bytes = ^uint64(0) },
		"gap in a file":       func(t *Tree) { t.Entries[1].Chunks[1].Address += ChunkBytes },
		"chunk of a file":     func(t *Tree) { t.Entries[1].Chunks[0].Bytes-- },
		"file without chunks": func(t *Tree) { t.Entries[1].Chunks = nil },
	} {
		tree := sampleTree()
		spoil(tree)
		if _, err := tree.Encode(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeal(t *testing.T) {
	key, other := NewKey([32]byte{1}), GenerateKey()
	sealed, err := SealManifest(&Manifest{Version: 1, Generation: 4, Owner: Owner{UID: 1000}}, key)
	if err != nil {
		t.Fatal(err)
	}
	m, seal, err := OpenSealed(sealed, []Key{other, key})
	if err != nil || m.Generation != 4 || seal.OwnerUID != 1000 || seal.Key != key.ID() {
		t.Errorf("%+v %+v %v", m, seal, err)
	}
	if _, _, err := OpenSealed(sealed, []Key{other}); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("with another key: %v", err)
	}
	// Change the owner or the text and fix the checksum.
	for _, at := range []int{sealedHeaderBytes + 30, len(sealed) - sealBytes + 12} {
		forged := bytes.Clone(sealed)
		forged[at] ^= 1
		copy(forged[len(forged)-32:], check(32, forged[:len(forged)-32]))
		if _, _, err := OpenSealed(forged, []Key{key}); err == nil {
			t.Errorf("changed at %d: accepted", at)
		}
	}
	if NewKey(key.Secret()).ID() != key.ID() || other.ID() == key.ID() {
		t.Error("different keys have the same ID")
	}
}

func TestNewerVersion(t *testing.T) {
	if _, err := SealManifest(&Manifest{Version: Version}, GenerateKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeManifest([]byte(`{"version": 2}`)); !errors.Is(err, ErrVersion) {
		t.Errorf("a newer manifest: %v", err)
	}
}
