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

// changes is what finds changes in a device's memory and puts copies aside there. It is made when the first checkpoint asks.
type changes struct {
	apart *apart

	mu     sync.Mutex
	code   gpu.Module // of the kernel
	kernel *digest.Kernel
	room   *shadow.Room
}

func newChanges(m *Memory) *changes {
	return &changes{apart: &apart{memory: m}}
}

// load loads the kernel's code, if it is not there. It comes before all code of the program's, so that it comes at the same time
// in each life of a program, whenever its checkpoints are. mu is held, or nobody else knows of s.
func (s *changes) load() (err error) {
	if s.code == nil {
		s.code, err = s.apart.memory.context.LoadModule(digest.Image(), gpu.LoadOptions{})
	}
	return err
}

// digester returns the kernel, with memory to work on.
func (s *changes) digester() (*digest.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernel != nil {
		return s.kernel, nil
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	c := s.apart.memory.context
	address, err := s.apart.Alloc(gpu.ChunkBytes)
	if err != nil {
		return nil, fmt.Errorf("memory for digests: %w", err)
	}
	multiprocessors := c.backend.infos[c.device.ordinal].Attributes[abi.AttrMultiprocessorCount]
	kernel, err := digest.Load(&digestCode{c, s.code}, gpu.Range{Address: address, Bytes: gpu.ChunkBytes}, int(multiprocessors))
	if err != nil {
		s.code = nil // unloaded
		return nil, errors.Join(err, s.apart.Free(address))
	}
	s.kernel = kernel
	return kernel, nil
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
