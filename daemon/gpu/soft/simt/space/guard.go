package space

import "github.com/phos-gpu/phos/daemon/gpu"

// pendingSave is a chunk that must be saved before it is written. Memory.mu guards started.
type pendingSave struct {
	save    gpu.Saver
	started bool
	done    chan struct{} // closed when it is saved
}

// Guard lets save be called before a chunk is written or unmapped. It returns the chunks for which
// it is not: they are dirty, or not mapped.
func (m *Memory) Guard(chunks []uint64, save gpu.Saver) (rest []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, address := range chunks {
		i := (address - m.window.Address) / gpu.ChunkBytes
		if address-m.window.Address >= m.window.Bytes || !m.states.at(i).CompareAndSwap(clean, guarded) {
			rest = append(rest, address)
			continue
		}
		m.saves[i] = &pendingSave{save: save, done: make(chan struct{})}
	}
	return rest
}

// Save saves a guarded chunk now, unless it is saved already.
func (m *Memory) Save(address uint64) { m.saveChunk((address - m.window.Address) / gpu.ChunkBytes) }

// saveChunk saves a guarded chunk, or waits for the goroutine that saves it. The caller must not
// hold spans.
func (m *Memory) saveChunk(i uint64) {
	m.mu.Lock()
	p := m.saves[i]
	if p == nil {
		m.mu.Unlock()
		return // saved in the meantime; the caller looks again
	}
	if p.started {
		m.mu.Unlock()
		<-p.done
		return
	}
	p.started = true
	m.mu.Unlock()

	defer func() { // also if save panics
		m.mu.Lock()
		defer m.mu.Unlock()
		m.endGuard(i, p)
	}()
	p.save(m.window.Address+i*gpu.ChunkBytes, m.data[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes])
}

// endGuard lets a chunk be written. Memory.mu is held.
func (m *Memory) endGuard(i uint64, p *pendingSave) {
	m.states.at(i).CompareAndSwap(guarded, clean)
	delete(m.saves, i)
	close(p.done)
}

// saveGuarded saves the guarded ones of some chunks.
func (m *Memory) saveGuarded(first, end uint64) {
	for i := first; i < end; i++ {
		if m.states.load(i) == guarded {
			m.saveChunk(i)
		}
	}
}

// Unguard lets all chunks be written that were not saved. It returns when no chunk is being saved.
func (m *Memory) Unguard() {
	for _, p := range m.dropGuards() {
		<-p.done
	}
}

// dropGuards ends the guards of chunks that are not being saved, and returns the others.
func (m *Memory) dropGuards() (started []*pendingSave) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range m.saves {
		if p.started {
			started = append(started, p)
		} else {
			m.endGuard(i, p)
		}
	}
	return started
}
