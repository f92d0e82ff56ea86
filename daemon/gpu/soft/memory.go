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

// device is one software GPU and its memory, which all its contexts share.
type device struct {
	ordinal int
	account account
	space   *space.Memory // set under Backend.mu by the first context, never changed while contexts are open

	mu       sync.Mutex
	owners   map[uint64]*Context     // by address of a chunk
	hosts    map[uint64]*hostMapping // by address
	aliases  map[uint64]*Context     // who made each, by its address
	imported map[uint64]struct{}     // chunks that are accounted to somebody else, by address
}

func newDevice(ordinal int, account account) *device {
	return &device{
		ordinal: ordinal, account: account,
		owners: map[uint64]*Context{}, hosts: map[uint64]*hostMapping{}, aliases: map[uint64]*Context{},
		imported: map[uint64]struct{}{},
	}
}

// hostMapping is host memory that one or more contexts have mapped at its address.
type hostMapping struct {
	memory []byte
	users  map[*Context]struct{}
}

// Memory is a context's view of its device's memory.
type Memory struct {
	*space.Memory // reading, writing and the marks are the space's own
	device        *device
	context       *Context
}

// Map backs a range with zeroed memory.
func (m *Memory) Map(r gpu.Range) error { return m.mapWith(r, m.Memory.Map) }

// MapAbsent backs a range whose chunks get their content when they are first touched.
func (m *Memory) MapAbsent(r gpu.Range, fill func(address uint64, chunk []byte) error) error {
	return m.mapWith(r, func(r gpu.Range) error { return m.Memory.MapAbsent(r, fill) })
}

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

// Adopt backs a range with what another memory has shared, whose account it is on.
func (m *Memory) Adopt(r gpu.Range, file *os.File, offset int64) error {
	if err := m.Memory.Adopt(r, file, offset); err != nil {
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

// Unmap gives memory back, whichever context of the device mapped it.
func (m *Memory) Unmap(r gpu.Range) error {
	d := m.device
	if err := m.Memory.Unmap(r); err != nil {
		return err
	}
	ours := r.Bytes
	d.mu.Lock()
	for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
		delete(d.owners, at)
		if _, adopted := d.imported[at]; adopted {
			delete(d.imported, at)
			ours -= gpu.ChunkBytes
		}
	}
	d.mu.Unlock()
	d.account.release(d.ordinal, ours)
	return nil
}

// MapHost makes host memory visible to kernels. Contexts of one device may map the same memory at
// the same address.
func (m *Memory) MapHost(address uint64, memory []byte) error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.hosts[address]
	if known == nil {
		if err := m.Memory.MapHost(address, memory); err != nil {
			return err
		}
		known = &hostMapping{memory: memory, users: map[*Context]struct{}{}}
		d.hosts[address] = known
	}
	_, mine := known.users[m.context]
	if mine || !sameSlice(known.memory, memory) {
		return fmt.Errorf("map host memory at %#x: %w", address, abi.AlreadyMapped)
	}
	known.users[m.context] = struct{}{}
	return nil
}

// UnmapHost takes one MapHost of this context back.
func (m *Memory) UnmapHost(address uint64) error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.hosts[address]
	if known == nil {
		return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
	}
	if _, mine := known.users[m.context]; !mine {
		return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
	}
	delete(known.users, m.context)
	if len(known.users) > 0 {
		return nil
	}
	delete(d.hosts, address)
	return m.Memory.UnmapHost(address)
}

// unwrap is the memory of a context behind what a session sees of it.
func unwrap(m gpu.Memory) (*Memory, bool) {
	if shown, is := m.(untracked); is {
		m = shown.Memory
	}
	own, is := m.(*Memory)
	return own, is
}

// Alias shows chunks that are mapped, here or on another device, at a further address.
func (m *Memory) Alias(address uint64, home gpu.Memory, r gpu.Range, write bool) error {
	from, own := unwrap(home)
	if !own {
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

// Unalias takes one Alias back, whichever context of the device made it.
func (m *Memory) Unalias(address uint64) error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.aliases, address)
	return m.RemoveAlias(address)
}

// Usage reports free and total bytes of the device.
func (m *Memory) Usage() (free, total uint64) {
	used, capacity := m.device.account.usage(m.device.ordinal)
	return capacity - min(used, capacity), capacity
}

// releaseAll gives back what the context still has. Nothing of it runs any more.
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

// Digests returns the digest of each chunk, computed on the cores that no kernel is using.
func (m *Memory) Digests(key gpu.DigestKey, list []gpu.Range) ([]gpu.Digest, error) {
	var chunks []gpu.Range
	for _, r := range list {
		if r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 {
			return nil, fmt.Errorf("digest %#x+%#x, which is not whole chunks: %w", r.Address, r.Bytes, abi.InvalidValue)
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
				digests[i] = f.Of(piece) // what lies in one chunk is one piece
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

// DigestCopy is the digest of a copy of a chunk.
func (m *Memory) DigestCopy(key gpu.DigestKey, chunk []byte) gpu.Digest {
	return digest.New(key).Of(chunk)
}

// untracked is a Memory that does not tell which chunks were written.
type untracked struct {
	gpu.Memory
	gpu.Lazy
	gpu.Viewer
	gpu.Toucher
	gpu.Digester
	gpu.Aliaser
	gpu.Sharer
}

// sessionView is what a session sees of a memory.
func (m *Memory) sessionView(marks bool) gpu.Memory {
	if marks {
		return m
	}
	return untracked{m, m, m, m, m, m, m}
}

func sameSlice(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mergeAdjacent sorts ranges and makes one of those that touch, so that giving back many chunks takes few
// steps.
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
