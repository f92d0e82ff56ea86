package treehash

import (
	"math/bits"
	"sync"

	"github.com/zeebo/blake3"
)

const (
	leafBytes  = 1024
	groupBytes = 16 * leafBytes // hashed at once
	nodeBytes  = 32
	// maxBytes is the longest content that is hashed the fast way: a chunk of memory.
	maxBytes = 2 << 20
)

// Flags of the compression function.
const (
	chunkStart = 1
	chunkEnd   = 2
	parent     = 4
	root       = 8
)

// inputs are the parameters of 16 calls of the compression function, besides their blocks.
type inputs struct {
	counters [16]uint32
	// flags are those of the first block, of the following ones, and the additional ones of the
	// last.
	flags [3]uint32
}

// Sum returns the BLAKE3 of a content.
func Sum(content []byte) [32]byte {
	if !Fast(len(content)) {
		return blake3.Sum256(content)
	}
	t := NewTree()
	defer t.Release()
	t.Add(content)
	return t.Sum()
}

// Fast reports whether a Tree can hash a content of this length.
func Fast(bytes int) bool {
	return fast && bytes >= groupBytes && bytes <= maxBytes && bits.OnesCount(uint(bytes)) == 1
}

var trees = sync.Pool{New: func() any { return new(Tree) }}

// Tree hashes a content in pieces, so that each can be hashed while it is in the cache. Fast must
// hold for the content's length.
type Tree struct {
	leaves int
	nodes  [maxBytes / leafBytes * nodeBytes]byte
}

// NewTree returns a Tree for a new content. The caller must call Release.
func NewTree() *Tree {
	t := trees.Get().(*Tree)
	t.leaves = 0
	return t
}

// Release ends the use of a Tree.
func (t *Tree) Release() { trees.Put(t) }

// Add hashes the next piece, whose length is a multiple of 16 KiB.
func (t *Tree) Add(piece []byte) {
	with := inputs{flags: [3]uint32{chunkStart, 0, chunkEnd}}
	for ; len(piece) >= groupBytes; piece = piece[groupBytes:] {
		for i := range with.counters {
			with.counters[i] = uint32(t.leaves + i)
		}
		compress16(&t.nodes[t.leaves*nodeBytes], &piece[0], leafBytes, leafBytes/64, &with)
		t.leaves += 16
	}
}

// Sum returns the hash of all pieces.
func (t *Tree) Sum() (sum [32]byte) {
	with := inputs{flags: [3]uint32{parent, parent, 0}}
	for n := t.leaves; n > 1; n /= 2 {
		if n == 2 {
			with.flags[2] = root
		}
		// Each iteration computes 16 nodes from 32 before it overwrites any. In the last iterations
		// only the first nodes count.
		for i := 0; i < n/2; i += 16 {
			compress16(&t.nodes[i*nodeBytes], &t.nodes[2*i*nodeBytes], 2*nodeBytes, 1, &with)
		}
	}
	copy(sum[:], t.nodes[:])
	return sum
}
