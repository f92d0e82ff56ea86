package space

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// touchLog is the order in which chunks were touched. Recording costs one lookup per chunk, because
// a span extends to neighbours only once they are recorded. A nil log contains all chunks.
type touchLog struct {
	next atomic.Uint32
	// order is the position of a chunk in the order, from 1, or 0 if it was not touched.
	order table
}

func (r *touchLog) has(i uint64) bool { return r == nil || r.order.load(i) != 0 }

// recordTouch records the touch of a chunk and returns the log, nil if touches are not recorded.
func (m *Memory) recordTouch(reader *Reader, i uint64) *touchLog {
	r := m.touches.Load()
	if r == nil || reader.viewing {
		return nil
	}
	if place := r.order.at(i); place.Load() == 0 {
		place.CompareAndSwap(0, r.next.Add(1))
	}
	return r
}

// RecordAccesses starts or stops recording the order in which chunks are touched.
func (m *Memory) RecordAccesses(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !on {
		m.touches.Store(nil)
		return
	}
	m.lastTouches = &touchLog{order: newTable(m.window.Bytes / gpu.ChunkBytes)}
	m.touches.Store(m.lastTouches)
	// Spans found earlier may cover chunks that are not recorded. Their touches are missing, which is
	// acceptable because the order is only advice.
	tryInvalidateSpans()
}

// Accesses returns the addresses of the chunks in the latest log, in the order of their first
// touch.
func (m *Memory) Accesses() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lastTouches == nil {
		return nil
	}
	type touch struct {
		place   uint32
		address uint64
	}
	var touches []touch
	m.lastTouches.order.each(func(i uint64, place uint32) {
		touches = append(touches, touch{place, m.window.Address + i*gpu.ChunkBytes})
	})
	slices.SortFunc(touches, func(a, b touch) int { return cmp.Compare(a.place, b.place) })
	addresses := make([]uint64, len(touches))
	for i, t := range touches {
		addresses[i] = t.address
	}
	return addresses
}
