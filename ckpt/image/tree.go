package image

import "encoding/hex"

// ChunkBytes is the longest content that is stored under one name; memory and files are cut at its
// multiples.
const ChunkBytes = 2 << 20

// Hash names a content: its BLAKE3, 32 bytes. The zero Hash stands for a content of zeros, which is
// stored nowhere.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the content is all zeros.
func (h Hash) IsZero() bool { return h == Hash{} }

// Kind says what an entry of a tree is.
type Kind uint8

// Kinds of entries.
const (
	// File is a sequence of bytes.
	File Kind = 1
	// Memory is chunks at addresses, in the order in which they should be loaded.
	Memory Kind = 2
)

// Chunk is a piece of an entry.
type Chunk struct {
	// Address is the offset in a file, or the address in memory.
	Address uint64
	Bytes   uint32
	Hash    Hash
}

// Entry is a file, or the content of a memory.
type Entry struct {
	Kind Kind
	// Name is unique in its tree. It is a label and never a path to open.
	Name   string
	Bytes  uint64
	Chunks []Chunk
}

// Tree is a list of entries, in the order of their names. It is stored as a content of its own, so
// a manifest that names it vouches for everything in it.
type Tree struct {
	Entries []Entry
}
