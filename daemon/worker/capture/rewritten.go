package capture

import "github.com/phos-gpu/phos/daemon/gpu"

// A training step rewrites most of its memory. What was copied in a Precopy, and is dirty again at
// the cut, was copied in vain: the next Precopy passes it over, and the cut guards it. When it is
// no longer rewritten, it is copied again.

// guards reports whether the cut costs nothing for a piece that was not copied.
func (m *memory) guards() bool {
	_, guards := m.source.Memory.(gpu.WriteGuard)
	return guards && !m.compares()
}

// split divides pieces into those that were rewritten each time, and the others.
func (m *memory) split(pieces []gpu.Range) (rewritten, others []gpu.Range) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range pieces {
		if m.rewritten[r.Address] {
			rewritten = append(rewritten, r)
		} else {
			others = append(others, r)
		}
	}
	return rewritten, others
}

// watchRewritten clears the dirty bits of pieces that are not copied, to see whether they are still
// rewritten.
func (m *memory) watchRewritten(pieces []gpu.Range) {
	for _, run := range runs(pieces) {
		one := batch{m, []gpu.Range{run}}
		one.clearDirty()
	}
}

// noteCopied remembers that a Precopy has copied a piece.
func (m *memory) noteCopied(r gpu.Range) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copied[r.Address] = true
}

// beginPrecopy forgets what earlier ones have copied.
func (m *memory) beginPrecopy() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copied = map[uint64]bool{}
}

// learnRewritten learns, from what is dirty at the cut, which pieces the next Precopy passes over.
func (m *memory) learnRewritten(uncopied []gpu.Range) {
	if !m.guards() {
		return
	}
	tracker := m.source.Memory.(gpu.Tracker)
	for _, run := range runs(uncopied) {
		dirty := tracker.Dirty(run)
		m.mu.Lock()
		for i := range run.Bytes / gpu.ChunkBytes {
			address := run.Address + i*gpu.ChunkBytes
			if m.copied[address] {
				m.rewritten[address] = true
			} else if !bit(dirty, i) {
				delete(m.rewritten, address)
			}
		}
		m.mu.Unlock()
	}
}
