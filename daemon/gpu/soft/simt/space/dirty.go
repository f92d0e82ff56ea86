package space

import "github.com/phos-gpu/phos/daemon/gpu"

// DisableTracking turns dirty tracking off: all memory counts as dirty. Benchmarks use it to
// measure the cost of tracking, tests to run code that must work without it. It must be called
// before the first Map.
func (m *Memory) DisableTracking() { m.mapped = dirty }

// Dirty returns the dirty bits of a range; bit i is chunk i of it. Chunks outside the window read
// as clean.
func (m *Memory) Dirty(r gpu.Range) []uint64 { return m.chunksIn(r, dirty, imported) }

// NeverWritten returns the chunks that have not been written since they were mapped.
func (m *Memory) NeverWritten(r gpu.Range) []uint64 { return m.chunksIn(r, fresh, fresh) }

// chunksIn returns the chunks of a range whose states are from least to most.
func (m *Memory) chunksIn(r gpu.Range, low, high uint32) []uint64 {
	first, end, err := m.chunks(r)
	if err != nil {
		return nil
	}
	found := make([]uint64, (end-first+63)/64)
	for i := first; i < end; i++ {
		if state := m.states.load(i); state >= low && state <= high {
			found[(i-first)/64] |= 1 << ((i - first) % 64)
		}
	}
	return found
}

// ClearDirty clears the dirty bits of a range and returns those that it has cleared. When it
// returns, every store to a chunk that is clean has reached memory, so a copy made afterwards
// includes it. It clears nothing if a stale span stays in use for too long, as in a copy from a
// stopped program.
func (m *Memory) ClearDirty(r gpu.Range) []uint64 {
	first, end, err := m.chunks(r)
	if err != nil {
		return nil
	}
	cleared := make([]uint64, (end-first+63)/64)
	changed := false
	for i := first; i < end; i++ {
		if m.states.load(i) == dirty && m.states.at(i).CompareAndSwap(dirty, clean) {
			cleared[(i-first)/64] |= 1 << ((i - first) % 64)
			changed = true
		}
	}
	if !changed || tryInvalidateSpans() {
		return cleared
	}
	for i := first; i < end; i++ {
		if cleared[(i-first)/64]&(1<<((i-first)%64)) != 0 {
			m.states.at(i).CompareAndSwap(clean, dirty)
		}
	}
	return make([]uint64, len(cleared))
}
