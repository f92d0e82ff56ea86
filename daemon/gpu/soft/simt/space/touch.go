package space

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// touchLog is the order in which chunks were touched. It costs a chunk's first touch a look-up and
// nothing afterwards, because a span takes in neighbours only once they are recorded. The nil
// record has everything.
type touchLog struct {
	next atomic.Uint32
	// order is 0 for a chunk that was not touched, else its place, from 1.
	order table
}

func (r *touchLog) has(i uint64) bool { return r == nil || r.order.load(i) != 0 }

// recordTouch records the touch of a chunk, and returns the record that is being made, nil for none.
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

// RecordTouches begins to record in which order chunks are touched, or stops.
func (m *Memory) RecordTouches(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !on {
		m.touches.Store(nil)
		return
	}
	m.lastTouches = &touchLog{order: newTable(m.window.Bytes / gpu.ChunkBytes)}
	m.touches.Store(m.lastTouches)
	// Spans that were found before are wider than what is recorded. What they touch is missing in an
	// order that is only advice.
	tryInvalidateSpans()
}

// Touches returns the addresses of the chunks that were touched while touches were recorded last,
// in that order.
func (m *Memory) Touches() []uint64 {
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
