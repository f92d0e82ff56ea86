package capture

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// forgetChanged forgets the hashes of pieces that may have changed since they were copied.
func (m *memory) forgetChanged(ctx context.Context, pieces []gpu.Range, workers pool.Workers) error {
	if tracker, ok := m.source.Memory.(gpu.Tracker); ok {
		m.forgetDirty(tracker, pieces)
		return nil
	}
	return wrap("compare", m, m.forgetDiffering(ctx, pieces, workers))
}

// bit reports whether bit i of a bitmap is set.
func bit(bitmap []uint64, i uint64) bool {
	return i/64 < uint64(len(bitmap)) && bitmap[i/64]>>(i%64)&1 == 1
}

// forgetDirty forgets dirty pieces, by the dirty bits of the memory.
func (m *memory) forgetDirty(tracker gpu.Tracker, pieces []gpu.Range) {
	for _, run := range runs(pieces) {
		// Read NeverWritten first. A chunk that is written between the two calls is then reported as
		// dirty and not taken for zeros.
		fresh, written := tracker.NeverWritten(run), tracker.Dirty(run)
		for i := range run.Bytes / gpu.ChunkBytes {
			r := gpu.Range{Address: run.Address + i*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
			if bit(fresh, i) {
				m.learn(r, content{}) // the zero hash replaces the hash of an earlier mapping
			}
			if bit(written, i) {
				m.forget(r.Address)
			}
		}
	}
}

// forgetDiffering compares digests with the ones at the last copy. Pieces without an old digest are
// forgotten.
func (m *memory) forgetDiffering(ctx context.Context, pieces []gpu.Range, workers pool.Workers) error {
	var compare []gpu.Range
	for _, r := range pieces {
		if c, ok := m.find(r); ok && c.digested {
			compare = append(compare, r)
		} else {
			m.forget(r.Address)
		}
	}
	digests, err := m.digestsOf(ctx, compare, workers)
	if err != nil {
		return err
	}
	for i, r := range compare {
		if c, _ := m.find(r); c.digest != digests[i] {
			m.forget(r.Address)
		}
	}
	return nil
}

// digestsOf computes digests of pieces in place. A piece that is no longer mapped gets one that
// matches nothing.
func (m *memory) digestsOf(ctx context.Context, list []gpu.Range, workers pool.Workers) ([]gpu.Digest, error) {
	if digester, ok := m.source.Memory.(gpu.Digester); ok {
		return digester.Digests(m.key, runs(list))
	}
	digests := make([]gpu.Digest, len(list))
	index := make([]int, len(list))
	for i := range index {
		index[i] = i
	}
	return digests, pool.Each(ctx, workers, index, func(i int) error {
		spare := func() []byte { return make([]byte, image.ChunkBytes) }
		err := inPlace(m.source.Memory, list[i], spare, func(content []byte) error {
			digests[i] = m.digests.Of(content)
			return nil
		})
		if unmapped(err) {
			return nil
		}
		return err
	})
}
