package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/shadow"
	"github.com/phos-gpu/phos/hijack/abi"
)

// changeFinder finds changed memory of a device and keeps shadows there. Its parts are created by
// the first checkpoint.
type changeFinder struct {
	private *privateMemory

	mu     sync.Mutex
	code   gpu.Module // of the digest kernel
	kernel *digest.Kernel
	room   *shadow.Room
}

func newChanges(m *Memory) *changeFinder {
	return &changeFinder{private: &privateMemory{memory: m}}
}

// loadKernel loads the digest kernel, unless it is loaded. A context loads it before all code of
// the program, so that a restore loads modules in the same order, whether or not there were
// checkpoints. mu is held, except while the context is created.
func (s *changeFinder) loadKernel() (err error) {
	if s.code == nil {
		s.code, err = s.private.memory.context.LoadModule(digest.Image(), gpu.LoadOptions{})
	}
	return err
}

// digester returns the kernel, with memory to work on.
func (s *changeFinder) digester() (*digest.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernel != nil {
		return s.kernel, nil
	}
	if err := s.loadKernel(); err != nil {
		return nil, err
	}
	c := s.private.memory.context
	address, err := s.private.Alloc(gpu.ChunkBytes)
	if err != nil {
		return nil, fmt.Errorf("allocate memory for digests: %w", err)
	}
	multiprocessors := c.backend.infos[c.device.ordinal].Attributes[abi.AttrMultiprocessorCount]
	kernel, err := digest.Load(&digestCode{c, s.code}, gpu.Range{Address: address, Bytes: gpu.ChunkBytes},
		int(multiprocessors))
	if err != nil {
		s.code = nil // digest.Load has unloaded it
		return nil, errors.Join(err, s.private.Free(address))
	}
	s.kernel = kernel
	return kernel, nil
}

// shadowRoom returns the room for shadows. If there is none, it returns nil, or a new one if create
// is set.
func (s *changeFinder) shadowRoom(create bool) (*shadow.Room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room != nil || !create {
		return s.room, nil
	}
	stream, err := s.private.memory.context.NewStream(gpu.StreamOptions{NonBlocking: true})
	if err != nil {
		return nil, fmt.Errorf("create stream for shadows: %w", err)
	}
	s.room = shadow.NewRoom(s.private, stream)
	return s.room, nil
}

// reclaimFor calls allocate, which gets memory for the program. If it fails, memory of shadows is
// released for it.
func (s *changeFinder) reclaimFor(allocate func() error) error {
	room, err := s.shadowRoom(false)
	if room == nil || err != nil {
		return allocate()
	}
	return room.ReclaimFor(allocate)
}

// Digests returns the digest of each chunk of a list of ranges, computed by the device.
func (m *Memory) Digests(key gpu.DigestKey, list []gpu.Range) ([]gpu.Digest, error) {
	var count uint64
	for _, r := range list {
		if err := m.checkRange("digest", r); err != nil {
			return nil, err
		}
		count += r.Bytes / gpu.ChunkBytes
	}
	digests := make([]gpu.Digest, count)
	err := m.digest(key, list, digests)
	if m.context.ended() {
		return make([]gpu.Digest, count), nil // the memory is gone
	}
	return digests, err
}

// digest runs the digest kernel over the mapped chunks.
func (m *Memory) digest(key gpu.DigestKey, list []gpu.Range, digests []gpu.Digest) error {
	kernel, err := m.changes.digester()
	if err != nil {
		return err
	}
	m.device.reading.RLock()
	defer m.device.reading.RUnlock()
	chunks, places := m.mapped(list)
	some, err := kernel.Digests(key, chunks)
	for i, d := range some {
		digests[places[i]] = d
	}
	return err
}

// mapped returns the mapped chunks of ranges, and the index of each among all chunks.
func (m *Memory) mapped(list []gpu.Range) (chunks []uint64, places []int) {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	place := 0
	for _, r := range list {
		for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
			if d.table.covered(at, gpu.ChunkBytes) == gpu.ChunkBytes {
				chunks, places = append(chunks, at), append(places, place)
			}
			place++
		}
	}
	return chunks, places
}

// DigestCopy returns the digest of a copy of a chunk.
func (m *Memory) DigestCopy(key gpu.DigestKey, chunk []byte) gpu.Digest {
	return digest.New(key).Of(chunk)
}

// NewShadows allocates memory for copies of chunks.
func (m *Memory) NewShadows(chunks int) (gpu.Shadows, int, error) {
	room, err := m.changes.shadowRoom(true)
	if err != nil {
		return nil, 0, err
	}
	return room.NewShadows(chunks)
}

// WaitReleased waits until all shadows are released.
func (m *Memory) WaitReleased() {
	if room, err := m.changes.shadowRoom(false); err == nil && room != nil {
		room.WaitReleased()
	}
}

// Pin pins memory of this process.
func (m *Memory) Pin(memory []byte) (unpin func() error, err error) {
	c := m.context
	if err := c.driver.HostPin(c.native, memory); err != nil {
		return nil, c.driverErr("pin memory", err)
	}
	c.backend.pinned.add(memory)
	return func() error {
		c.backend.pinned.remove(memory)
		return c.driverErr("unpin memory", c.driver.HostUnregister(c.native, memory))
	}, nil
}

// privateMemory is device memory that is hidden from the program: for the digest kernel and
// shadows. It is mapped like the program's memory, at addresses of its own. The driver's heap is
// not used, because the driver places module variables there, and a restore needs them at the same
// addresses.
type privateMemory struct {
	memory *Memory

	mu        sync.Mutex
	allocated []*mapping // by address
}

// Preferred addresses: after the windows of all devices. Other addresses work, too.
const (
	privateAddress = 0x5c00_0000_0000
	privateBytes   = 128 << 30 // per device
)

// Alloc allocates memory, in whole chunks.
func (a *privateMemory) Alloc(bytes uint64) (uint64, error) {
	bytes = (bytes + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)
	if err := a.reserve(bytes); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := a.mapNew(bytes)
	if err != nil {
		a.release(bytes)
		return 0, a.memory.context.driverErr("allocate memory for a checkpoint", err)
	}
	at, _ := slices.BinarySearchFunc(a.allocated, p,
		func(x, y *mapping) int { return cmp.Compare(x.Address, y.Address) })
	a.allocated = slices.Insert(a.allocated, at, p)
	return p.Address, nil
}

// reserve charges bytes to this worker in the ledger, in a column that programs do not see.
func (a *privateMemory) reserve(bytes uint64) error {
	if o := a.memory.context.backend.options; o.Ledger != nil {
		return o.Ledger.ReserveOwn(int(a.memory.device.ordinal), o.Slot, bytes)
	}
	return nil
}

// release releases bytes in the ledger.
func (a *privateMemory) release(bytes uint64) {
	if o := a.memory.context.backend.options; o.Ledger != nil {
		o.Ledger.ReleaseOwn(int(a.memory.device.ordinal), o.Slot, bytes)
	}
}

// mapNew maps new memory after the existing ranges. mu is held.
func (a *privateMemory) mapNew(bytes uint64) (p *mapping, err error) {
	d := a.memory.device
	wanted := privateAddress + uint64(d.ordinal)*privateBytes
	if n := len(a.allocated); n > 0 {
		wanted = a.allocated[n-1].End()
	}
	p = &mapping{Range: gpu.Range{Bytes: bytes}}
	if p.Address, err = d.driver.Reserve(bytes, wanted); err != nil && !gpu.Code(err).Sticky() {
		p.Address, err = d.driver.Reserve(bytes, 0) // some drivers fail if the wanted address is in use
	}
	if err != nil {
		return p, err
	}
	if p.allocation, err = d.driver.Create(bytes, d.ordinal, cudadrv.HandleNone); err != nil {
		return p, errors.Join(err, d.driver.Unreserve(p.Address, bytes))
	}
	if err = d.driver.Map(p.Address, bytes, p.allocation); err == nil {
		if err = d.driver.Allow(p.Address, bytes, []int32{d.ordinal}); err == nil {
			return p, nil
		}
		err = errors.Join(err, d.driver.Unmap(p.Address, bytes))
	}
	return p, errors.Join(err, d.driver.Release(p.allocation), d.driver.Unreserve(p.Address, bytes))
}

// Free frees memory of Alloc, unless it was freed with the context: a checkpoint may end after
// that. The memory must not be in use.
func (a *privateMemory) Free(address uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.allocated, func(p *mapping) bool { return p.Address == address })
	if at < 0 {
		return nil
	}
	p := a.allocated[at]
	a.allocated = slices.Delete(a.allocated, at, at+1)
	return a.memory.context.driverErr("free memory of a checkpoint", a.unmap(p))
}

// unmap frees a mapping and its addresses.
func (a *privateMemory) unmap(p *mapping) error {
	driver := a.memory.device.driver
	a.release(p.Bytes)
	return errors.Join(driver.Unmap(p.Address, p.Bytes), driver.Release(p.allocation),
		driver.Unreserve(p.Address, p.Bytes))
}

// ReadAt copies from this memory.
func (a *privateMemory) ReadAt(p []byte, address int64) (int, error) {
	return a.memory.context.copyOut(p, uint64(address))
}

// Usage reports free and total bytes of the device.
func (a *privateMemory) Usage() (free, total uint64) { return a.memory.Usage() }

// releaseAll frees all memory of the context. Its work has ended.
func (a *privateMemory) releaseAll() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, p := range a.allocated {
		errs = append(errs, a.unmap(p))
	}
	a.allocated = nil
	return errors.Join(errs...)
}

// digestCode is a digest.Launcher whose module is already loaded.
type digestCode struct {
	*Context
	module gpu.Module
}

// LoadModule returns the loaded module.
func (c *digestCode) LoadModule(gpu.Image, gpu.LoadOptions) (gpu.Module, error) { return c.module, nil }
