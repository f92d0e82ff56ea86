package capture

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/ckpt/crew"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// changed returns the pieces whose content is not known, or not that which is known. It forgets what it finds to have changed.
func (m *memory) changed(ctx context.Context, workers crew.Crew) ([]gpu.Range, error) {
	if tracker, marks := m.source.Memory.(gpu.Tracker); marks {
		return m.changedByMarks(tracker), nil
	}
	list, err := m.changedByDigest(ctx, workers)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", m.source.Name, err)
	}
	return list, nil
}

func bit(bitmap []uint64, i uint64) bool {
	return i/64 < uint64(len(bitmap)) && bitmap[i/64]>>(i%64)&1 == 1
}

func (m *memory) changedByMarks(tracker gpu.Tracker) (changed []gpu.Range) {
	for _, run := range runs(m.pieces) {
		// Fresh chunks first: one that is written in between is then found written, and never taken for zeros that it
		// no longer has.
		fresh, written := tracker.Fresh(run), tracker.Written(run)
		for i := range run.Bytes / gpu.ChunkBytes {
			r := gpu.Range{Address: run.Address + i*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
			if bit(fresh, i) {
				m.learn(r, content{}) // the zero hash; a name from before it was mapped again is forgotten
			}
			if bit(written, i) {
				m.forget(r.Address)
			}
			if _, known := m.lookUp(r); !known {
				changed = append(changed, r)
			}
		}
	}
	return changed
}

// changedByDigest compares what was digested before.
func (m *memory) changedByDigest(ctx context.Context, workers crew.Crew) (changed []gpu.Range, err error) {
	var compare []gpu.Range
	for _, r := range m.pieces {
		if c, known := m.lookUp(r); known && c.digested {
			compare = append(compare, r)
		} else {
			changed = append(changed, r)
		}
	}
	digests, err := m.digestsOf(ctx, compare, workers)
	if err != nil {
		return nil, err
	}
	for i, r := range compare {
		if c, _ := m.lookUp(r); c.digest != digests[i] {
			m.forget(r.Address)
			changed = append(changed, r)
		}
	}
	return changed, nil
}

// digestsOf computes digests of pieces where they lie. A piece that is not mapped any more has one that matches nothing.
func (m *memory) digestsOf(ctx context.Context, list []gpu.Range, workers crew.Crew) ([]gpu.Digest, error) {
	digests := make([]gpu.Digest, len(list))
	if digester, offers := m.source.Memory.(gpu.Digester); offers {
		at := 0
		for _, run := range runs(list) {
			some, err := digester.Digests(m.key, run)
			if err != nil && !unmapped(err) {
				return nil, err
			}
			copy(digests[at:], some)
			at += int(run.Bytes / gpu.ChunkBytes)
		}
		return digests, nil
	}
	index := make([]int, len(list))
	for i := range index {
		index[i] = i
	}
	return digests, crew.Each(ctx, workers, index, func(i int) error {
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
