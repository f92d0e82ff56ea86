package space

import "github.com/phos-gpu/phos/daemon/gpu"

// DisableTracking makes a memory that keeps no marks: everything counts as written. It is for measuring
// what marks cost, and for testing what does without them. Nothing may be mapped yet.
func (m *Memory) DisableTracking() { m.mapped = dirty }

// Written returns the marks of a range; bit i is chunk i of it. Chunks outside the window read as
// clean.
func (m *Memory) Written(r gpu.Range) []uint64 { return m.chunksIn(r, dirty, imported) }

// Fresh returns which chunks nobody has written since they were mapped.
func (m *Memory) Fresh(r gpu.Range) []uint64 { return m.chunksIn(r, fresh, fresh) }

func (m *Memory) chunksIn(r gpu.Range, least, most uint32) []uint64 {
	first, end, err := m.chunks(r)
	if err != nil {
		return nil
	}
	found := make([]uint64, (end-first+63)/64)
	for i := first; i < end; i++ {
		if state := m.states.load(i); state >= least && state <= most {
			found[(i-first)/64] |= 1 << ((i - first) % 64)
		}
	}
	return found
}

// ClearWritten clears the marks of a range and returns those that it has cleared. When it returns,
// every store that was not marked again is in memory, so a copy made from then on misses nothing
// that is left unmarked. It clears none while somebody goes on storing without looking for marks: a
// copy from a program that stands still.
func (m *Memory) ClearWritten(r gpu.Range) []uint64 {
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
