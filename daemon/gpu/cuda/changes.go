package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/shadow"
	"github.com/phos-gpu/phos/hijack/abi"
)

// apart is memory of the device that the program is told nothing of, where the driver likes: what finding changes takes.
type apart struct {
	memory *Memory

	mu        sync.Mutex
	allocated map[uint64]uint64 // bytes, by address
}

// Alloc gets memory.
func (a *apart) Alloc(bytes uint64) (uint64, error) {
	c := a.memory.context
	if err := a.memory.reserve(bytes); err != nil {
		return 0, err
	}
	address, err := c.driver.MemAlloc(c.native, bytes)
	if err != nil {
		a.memory.release(bytes)
		return 0, c.noted("get memory for a checkpoint", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allocated[address] = bytes
	return address, nil
}

// Free gives it back.
func (a *apart) Free(address uint64) error {
	c := a.memory.context
	a.mu.Lock()
	bytes := a.allocated[address]
	delete(a.allocated, address)
	a.mu.Unlock()
	if err := c.driver.MemFree(c.native, address); err != nil {
		return c.noted("give back memory of a checkpoint", err)
	}
	a.memory.release(bytes)
	return nil
}

// ReadAt copies out of it.
func (a *apart) ReadAt(p []byte, address int64) (int, error) {
	return a.memory.context.copyOut(p, uint64(address))
}

// Usage reports free and total bytes of the device.
func (a *apart) Usage() (free, total uint64) { return a.memory.Usage() }

// releaseAll forgets what the context had. The driver takes it back with the context.
func (a *apart) releaseAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for address, bytes := range a.allocated {
		a.memory.release(bytes)
		delete(a.allocated, address)
	}
}

// changes is what finds changes in a device's memory and puts copies aside there. It is made when the first checkpoint asks.
type changes struct {
	apart *apart

	mu     sync.Mutex
	kernel *digest.Kernel
	room   *shadow.Room
}

func newChanges(m *Memory) *changes {
	return &changes{apart: &apart{memory: m, allocated: map[uint64]uint64{}}}
}

// digester returns the kernel, loaded.
func (s *changes) digester() (*digest.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernel != nil {
		return s.kernel, nil
	}
	c := s.apart.memory.context
	address, err := s.apart.Alloc(gpu.ChunkBytes)
	if err != nil {
		return nil, fmt.Errorf("memory for digests: %w", err)
	}
	multiprocessors := c.backend.infos[c.device.ordinal].Attributes[abi.AttrMultiprocessorCount]
	s.kernel, err = digest.Load(c, gpu.Range{Address: address, Bytes: gpu.ChunkBytes}, int(multiprocessors))
	if err != nil {
		return nil, errors.Join(err, s.apart.Free(address))
	}
	return s.kernel, nil
}

// shadows returns the room for them; nil, where there never was one, unless it is to be made.
func (s *changes) shadows(make bool) (*shadow.Room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room != nil || !make {
		return s.room, nil
	}
	stream, err := s.apart.memory.context.NewStream(gpu.StreamOptions{NonBlocking: true})
	if err != nil {
		return nil, fmt.Errorf("stream for shadows: %w", err)
	}
	s.room = shadow.NewRoom(s.apart, stream)
	return s.room, nil
}

// insist calls allocate, which gets memory for the program: what shadows have is the program's first.
func (s *changes) insist(allocate func() error) error {
	room, err := s.shadows(false)
	if room == nil || err != nil {
		return allocate()
	}
	return room.Insist(allocate)
}

// Digests returns the digest of each chunk of a list of ranges, computed by the device.
func (m *Memory) Digests(key gpu.DigestKey, list []gpu.Range) ([]gpu.Digest, error) {
	for _, r := range list {
		if err := m.whole("digest", r); err != nil {
			return nil, err
		}
	}
	kernel, err := m.changes.digester()
	if err != nil {
		return nil, err
	}
	m.device.reading.RLock()
	defer m.device.reading.RUnlock()
	chunks, places, count := m.mapped(list)
	digests := make([]gpu.Digest, count)
	some, err := kernel.Digests(key, chunks)
	for i, d := range some {
		digests[places[i]] = d
	}
	return digests, err
}

// mapped lists those chunks of ranges that have memory behind them, with the place of each among all, and counts all.
func (m *Memory) mapped(list []gpu.Range) (chunks []uint64, places []int, count int) {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range list {
		for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
			if d.table.covered(at, gpu.ChunkBytes) == gpu.ChunkBytes {
				chunks, places = append(chunks, at), append(places, count)
			}
			count++
		}
	}
	return chunks, places, count
}

// DigestCopy is the digest of a copy of a chunk.
func (m *Memory) DigestCopy(key gpu.DigestKey, chunk []byte) gpu.Digest {
	return digest.New(key).Of(chunk)
}

// NewShadows gets memory for copies of chunks.
func (m *Memory) NewShadows(chunks int) (gpu.Shadows, int, error) {
	room, err := m.changes.shadows(true)
	if err != nil {
		return nil, 0, err
	}
	return room.NewShadows(chunks)
}

// Pin pins memory of this process.
func (m *Memory) Pin(memory []byte) (unpin func() error, err error) {
	c := m.context
	if err := c.driver.HostRegister(c.native, memory); err != nil {
		return nil, c.noted("pin memory", err)
	}
	return func() error { return c.noted("unpin memory", c.driver.HostUnregister(c.native, memory)) }, nil
}
