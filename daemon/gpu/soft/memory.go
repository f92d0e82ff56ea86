package soft

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is one software GPU. All its contexts share its memory.
type device struct {
	ordinal int
	account account
	space   *space.Memory // set under Backend.mu by the first context; constant while contexts are open

	mu       sync.Mutex
	owners   map[uint64]*Context     // creator of each mapping, by chunk address
	hosts    map[uint64]*hostMapping // by address
	aliases  map[uint64]*Context     // creator of each alias, by address
	imported map[uint64]struct{}     // chunks that another process accounts for, by address
}

func newDevice(ordinal int, account account) *device {
	return &device{
		ordinal: ordinal, account: account,
		owners: map[uint64]*Context{}, hosts: map[uint64]*hostMapping{}, aliases: map[uint64]*Context{},
		imported: map[uint64]struct{}{},
	}
}

// hostMapping is host memory that one or more contexts have mapped.
type hostMapping struct {
	memory []byte
	users  map[*Context]struct{}
}

// Memory is a context's view of its device's memory.
type Memory struct {
	*space.Memory // reading, writing and dirty bits
	device        *device
	context       *Context
}

// Map backs a range with zeroed memory.
func (m *Memory) Map(r gpu.Range) error { return m.mapWith(r, m.Memory.Map) }

// MapAbsent backs a range with chunks that fill provides on first access.
func (m *Memory) MapAbsent(r gpu.Range, fill func(address uint64, chunk []byte) error) error {
	return m.mapWith(r, func(r gpu.Range) error { return m.Memory.MapAbsent(r, fill) })
}

// mapWith reserves memory in the account, maps it with back and records the context as its creator.
func (m *Memory) mapWith(r gpu.Range, back func(gpu.Range) error) error {
	d := m.device
	if err := d.account.reserve(d.ordinal, r.Bytes); err != nil {
		return err
	}
	if err := back(r); err != nil {
		d.account.release(d.ordinal, r.Bytes)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
		d.owners[at] = m.context
	}
	return nil
}

// Import maps memory that another Memory has shared. The exporter accounts for it.
func (m *Memory) Import(r gpu.Range, file *os.File, offset int64) error {
	if err := m.Memory.Import(r, file, offset); err != nil {
		return err
	}
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
		d.owners[at], d.imported[at] = m.context, struct{}{}
	}
	return nil
}

// Unmap unmaps memory of any context of the device.
func (m *Memory) Unmap(r gpu.Range) error {
	d := m.device
	if err := m.Memory.Unmap(r); err != nil {
		return err
	}
	accounted := r.Bytes
	d.mu.Lock()
	for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
		delete(d.owners, at)
		if _, imported := d.imported[at]; imported {
			delete(d.imported, at)
			accounted -= gpu.ChunkBytes
		}
	}
	d.mu.Unlock()
	d.account.release(d.ordinal, accounted)
	return nil
}

// MapHost makes host memory visible to kernels. Contexts of one device may map the same memory at
// the same address.
func (m *Memory) MapHost(address uint64, memory []byte) error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	mapping := d.hosts[address]
	if mapping == nil {
		if err := m.Memory.MapHost(address, memory); err != nil {
			return err
		}
		mapping = &hostMapping{memory: memory, users: map[*Context]struct{}{}}
		d.hosts[address] = mapping
	}
	_, mine := mapping.users[m.context]
	if mine || !sameSlice(mapping.memory, memory) {
		return fmt.Errorf("map host memory at %#x: %w", address, abi.AlreadyMapped)
	}
	mapping.users[m.context] = struct{}{}
	return nil
}

// UnmapHost undoes one MapHost of this context.
func (m *Memory) UnmapHost(address uint64) error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	mapping := d.hosts[address]
	if mapping == nil {
		return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
	}
	if _, mine := mapping.users[m.context]; !mine {
		return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
	}
	delete(mapping.users, m.context)
	if len(mapping.users) > 0 {
		return nil
	}
	delete(d.hosts, address)
	return m.Memory.UnmapHost(address)
}

// unwrap returns the Memory behind a session's view of it.
func unwrap(m gpu.Memory) (*Memory, bool) {
	if view, ok := m.(untracked); ok {
		m = view.Memory
	}
	own, ok := m.(*Memory)
	return own, ok
}

// Alias maps chunks of this or another device at a second address.
func (m *Memory) Alias(address uint64, home gpu.Memory, r gpu.Range, write bool) error {
	from, ok := unwrap(home)
	if !ok {
		return fmt.Errorf("alias memory of another backend: %w", abi.InvalidValue)
	}
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := m.AddAlias(address, from.Memory, r, write); err != nil {
		return err
	}
	d.aliases[address] = m.context
	return nil
}

// Unalias undoes one Alias of any context of the device.
func (m *Memory) Unalias(address uint64) error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.aliases, address)
	return m.RemoveAlias(address)
}

// Usage returns free and total bytes of the device.
func (m *Memory) Usage() (free, total uint64) {
	used, capacity := m.device.account.usage(m.device.ordinal)
	return capacity - min(used, capacity), capacity
}

// releaseAll unmaps everything that the context has mapped. Its work must have ended.
func (m *Memory) releaseAll() error {
	var ranges []gpu.Range
	var hosts, aliases []uint64
	d := m.device
	d.mu.Lock()
	for at, owner := range d.owners {
		if owner == m.context {
			ranges = append(ranges, gpu.Range{Address: at, Bytes: gpu.ChunkBytes})
		}
	}
	for address, mapping := range d.hosts {
		if _, mine := mapping.users[m.context]; mine {
			hosts = append(hosts, address)
		}
	}
	for address, owner := range d.aliases {
		if owner == m.context {
			aliases = append(aliases, address)
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, address := range aliases {
		errs = append(errs, m.Unalias(address))
	}
	for _, r := range mergeAdjacent(ranges) {
		errs = append(errs, m.Unmap(r))
	}
	for _, address := range hosts {
		errs = append(errs, m.UnmapHost(address))
	}
	return errors.Join(errs...)
}

// Digests returns the digest of each chunk, computed on the cores that no kernel uses.
func (m *Memory) Digests(key gpu.DigestKey, list []gpu.Range) ([]gpu.Digest, error) {
	var chunks []gpu.Range
	for _, r := range list {
		if r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 {
			return nil, fmt.Errorf("digest %#x+%#x: range is not whole chunks: %w", r.Address, r.Bytes, abi.InvalidValue)
		}
		for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
			chunks = append(chunks, gpu.Range{Address: at, Bytes: gpu.ChunkBytes})
		}
	}
	f := digest.New(key)
	digests := make([]gpu.Digest, len(chunks))
	err := m.context.split(uint64(len(chunks))*gpu.ChunkBytes, func(at, bytes uint64) error {
		for i := at / gpu.ChunkBytes; i < (at+bytes)/gpu.ChunkBytes; i++ {
			err := m.View(chunks[i], func(piece []byte) error {
				digests[i] = f.Of(piece) // one chunk is one piece
				return nil
			})
			if err != nil && gpu.Code(err) != abi.IllegalAddress {
				return fmt.Errorf("digest chunk: %w", err)
			}
		}
		return nil
	})
	return digests, err
}

// DigestCopy returns the digest of a chunk's copy.
func (m *Memory) DigestCopy(key gpu.DigestKey, chunk []byte) gpu.Digest {
	return digest.New(key).Of(chunk)
}

// untracked is a Memory without dirty tracking: gpu.Tracker is missing from its method set.
type untracked struct {
	gpu.Memory
	gpu.LazyMapper
	gpu.Viewer
	gpu.AccessRecorder
	gpu.Digester
	gpu.Aliaser
	gpu.Sharer
}

// sessionView returns the memory with or without dirty tracking.
func (m *Memory) sessionView(tracked bool) gpu.Memory {
	if tracked {
		return m
	}
	return untracked{m, m, m, m, m, m, m}
}

// sameSlice reports whether a and b are the same memory.
func sameSlice(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mergeAdjacent sorts ranges and merges adjacent ones, so that unmapping many chunks takes few
// calls.
func mergeAdjacent(ranges []gpu.Range) []gpu.Range {
	slices.SortFunc(ranges, func(a, b gpu.Range) int { return cmp.Compare(a.Address, b.Address) })
	var out []gpu.Range
	for _, r := range ranges {
		if last := len(out) - 1; last >= 0 && out[last].End() == r.Address {
			out[last].Bytes += r.Bytes
			continue
		}
		out = append(out, r)
	}
	return out
}
