package space

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Filler provides the content of an absent chunk.
type Filler = func(address uint64, chunk []byte) error

// pendingChunk is an absent chunk. Memory.mu guards its fields except done.
type pendingChunk struct {
	fill    Filler
	started bool
	done    chan struct{} // closed when the fill has ended
	err     error         // valid once done is closed; the chunk stays absent after an error
}

// MapAbsent is Map, but the first access to each chunk waits for fill.
func (m *Memory) MapAbsent(r gpu.Range, fill func(address uint64, chunk []byte) error) error {
	if fill == nil {
		return fmt.Errorf("map absent %#x+%#x: no filler: %w", r.Address, r.Bytes, abi.InvalidValue)
	}
	return m.mapAs(r, absent, fill)
}

// fillChunk fills an absent chunk, or waits for the goroutine that fills it. The caller must not
// hold spans.
func (m *Memory) fillChunk(i uint64) error {
	m.mu.Lock()
	p := m.pending[i]
	if p == nil {
		m.mu.Unlock()
		return nil // filled or unmapped in the meantime; the caller looks again
	}
	if p.started {
		m.mu.Unlock()
		<-p.done
		return p.err
	}
	p.started = true
	m.mu.Unlock()

	address := m.window.Address + i*gpu.ChunkBytes
	err := p.fill(address, m.data[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes])

	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		p.err = fmt.Errorf("fill chunk at %#x: %w", address, err)
	} else {
		m.states.at(i).Store(max(clean, m.mapped))
		delete(m.pending, i)
	}
	close(p.done)
	return p.err
}

// awaitFills waits for fills in progress in a range of chunks.
func (m *Memory) awaitFills(first, end uint64) {
	for i := first; i < end; i++ {
		m.mu.Lock()
		p := m.pending[i]
		m.mu.Unlock()
		if p != nil && p.started {
			<-p.done
		}
	}
}
