package image

import "encoding/hex"

// ChunkBytes is the length of the longest content with one hash. Memory and files are divided at
// its multiples.
const ChunkBytes = 2 << 20

// Hash is the BLAKE3 of a content, 32 bytes. The zero Hash stands for zeros, which are
// not stored.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the content is all zeros.
func (h Hash) IsZero() bool { return h == Hash{} }

// Kind is the kind of an entry of a tree.
type Kind uint8

// Kinds of entries.
const (
	// File is a sequence of bytes.
	File Kind = 1
	// Memory is chunks at addresses, in the order in which they should be loaded.
	Memory Kind = 2
)

// Chunk is a part of an entry.
type Chunk struct {
	// Address is the offset in a file, or the address in memory.
	Address uint64
	Bytes   uint32
	Hash    Hash
}

// Entry is a file or memory.
type Entry struct {
	Kind Kind
	// Name is unique in its tree. It is a label, never a path to open.
	Name   string
	Bytes  uint64
	Chunks []Chunk
}

// Tree is a list of entries, ordered by name. It is stored as a content with its own hash, so a
// manifest with the hash covers all entries.
type Tree struct {
	Entries []Entry
}
