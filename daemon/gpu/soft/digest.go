package soft

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Digests returns the digest of each chunk of a range, computed on the cores that no kernel is using.
func (m *Memory) Digests(key gpu.DigestKey, r gpu.Range) ([]gpu.Digest, error) {
	if r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 {
		return nil, fmt.Errorf("digest %#x+%#x, which is not whole chunks: %w", r.Address, r.Bytes, abi.InvalidValue)
	}
	f := digest.New(key)
	digests := make([]gpu.Digest, r.Bytes/gpu.ChunkBytes)
	err := m.context.split(r.Bytes, func(at, bytes uint64) error {
		for end := at + bytes; at < end; at += gpu.ChunkBytes {
			chunk := gpu.Range{Address: r.Address + at, Bytes: gpu.ChunkBytes}
			err := m.View(chunk, func(piece []byte) error {
				digests[at/gpu.ChunkBytes] = f.Of(piece) // a span has whole chunks, so the piece is the chunk
				return nil
			})
			if err != nil {
				return fmt.Errorf("digest chunk: %w", err)
			}
		}
		return nil
	})
	return digests, err
}

// DigestCopy is the digest of a copy of a chunk.
func (m *Memory) DigestCopy(key gpu.DigestKey, chunk []byte) gpu.Digest {
	return digest.New(key).Of(chunk)
}

// unmarked is a Memory that does not tell which chunks were written.
type unmarked struct {
	gpu.Memory
	gpu.Lazy
	gpu.Viewer
	gpu.Toucher
	gpu.Digester
}

// shown is what a session sees of a memory.
func (m *Memory) shown(marks bool) gpu.Memory {
	if marks {
		return m
	}
	return unmarked{m, m, m, m, m}
}
