package capture

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
)

// content describes a piece of memory when it was last copied.
type content struct {
	bytes uint64
	hash  image.Hash
	// digest is the digest of the same bytes. It is set only if the memory is compared by digest,
	// and not by Seed.
	digest   gpu.Digest
	digested bool
}

// memory is the state of a source.
type memory struct {
	source  Source
	pieces  []gpu.Range
	key     gpu.DigestKey
	digests digest.Func

	mu    sync.Mutex
	known map[uint64]content // by address; valid while the dirty bit is clear or the digest is the same
	// copied are the pieces of the last Precopy, rewritten those that the next one passes over.
	copied, rewritten map[uint64]bool
}

func newMemory() *memory {
	key := digest.NewKey()
	return &memory{
		key: key, digests: digest.New(key), known: map[uint64]content{}, copied: map[uint64]bool{},
		rewritten: map[uint64]bool{},
	}
}

// refresh updates the memory to what is mapped now.
func (m *memory) refresh(s Source) error {
	if m.source.Memory != nil && m.source.Memory != s.Memory {
		m.known, m.rewritten = map[uint64]content{}, map[uint64]bool{}
	}
	_, marks := s.Memory.(gpu.Tracker)
	_, digests := s.Memory.(gpu.Digester)
	if (marks || digests) && !wholeChunks(s.Ranges) {
		return fmt.Errorf("capture %s: ranges are not whole chunks", s.Name)
	}
	m.source, m.pieces = s, pieces(s.Ranges)
	kept, rewritten := make(map[uint64]content, len(m.pieces)), map[uint64]bool{}
	for _, r := range m.pieces {
		if c, found := m.known[r.Address]; found && c.bytes == r.Bytes {
			kept[r.Address] = c
		}
		if m.rewritten[r.Address] {
			rewritten[r.Address] = true
		}
	}
	m.known, m.rewritten = kept, rewritten
	return nil
}

// forget removes the hash of the piece at address.
func (m *memory) forget(address uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, address)
}

// learn records the content of a piece.
func (m *memory) learn(r gpu.Range, c content) {
	c.bytes = r.Bytes
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[r.Address] = c
}

// find returns the content that is known of a piece. It may be outdated; see known.
func (m *memory) find(r gpu.Range) (content, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, found := m.known[r.Address]
	return c, found
}

// compares reports whether changes are detected by digests.
func (m *memory) compares() bool {
	_, marks := m.source.Memory.(gpu.Tracker)
	return !marks
}

// digestOf returns the digest of a copy, comparable with digestsOf.
func (m *memory) digestOf(bytes []byte) gpu.Digest {
	if d, ok := m.source.Memory.(gpu.Digester); ok {
		return d.DigestCopy(m.key, bytes)
	}
	return m.digests.Of(bytes)
}
