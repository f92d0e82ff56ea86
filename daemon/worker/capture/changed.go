package capture

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// forgetChanged forgets the names of pieces whose content may not be what it was when it was named.
func (m *memory) forgetChanged(ctx context.Context, pieces []gpu.Range, workers pool.Crew) error {
	if tracker, marks := m.source.Memory.(gpu.Tracker); marks {
		m.forgetMarked(tracker, pieces)
		return nil
	}
	return wrap("compare", m, m.forgetDiffering(ctx, pieces, workers))
}

func bit(bitmap []uint64, i uint64) bool {
	return i/64 < uint64(len(bitmap)) && bitmap[i/64]>>(i%64)&1 == 1
}

func (m *memory) forgetMarked(tracker gpu.Tracker, pieces []gpu.Range) {
	for _, run := range runs(pieces) {
		// Fresh chunks first: one that is written in between is then found written, and never taken for
		// zeros that it no longer has.
		fresh, written := tracker.Fresh(run), tracker.Written(run)
		for i := range run.Bytes / gpu.ChunkBytes {
			r := gpu.Range{Address: run.Address + i*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
			if bit(fresh, i) {
				m.learn(r, content{}) // the zero hash; a name from before it was mapped again is forgotten
			}
			if bit(written, i) {
				m.forget(r.Address)
			}
		}
	}
}

// forgetDiffering compares what was digested before. A name without a digest is good for nothing
// here.
func (m *memory) forgetDiffering(ctx context.Context, pieces []gpu.Range, workers pool.Crew) error {
	var compare []gpu.Range
	for _, r := range pieces {
		if c, known := m.lookUp(r); known && c.digested {
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
		if c, _ := m.lookUp(r); c.digest != digests[i] {
			m.forget(r.Address)
		}
	}
	return nil
}

// digestsOf computes digests of pieces where they lie. A piece that is not mapped any more has one
// that matches nothing.
func (m *memory) digestsOf(ctx context.Context, list []gpu.Range, workers pool.Crew) ([]gpu.Digest, error) {
	if digester, offers := m.source.Memory.(gpu.Digester); offers {
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
