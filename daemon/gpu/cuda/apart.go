package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// apart is memory of the device that the program is told nothing of: what finding changes takes. It is got as the program's is,
// at addresses of ours; the driver's own heap stays as it would be without us, because variables of modules lie there, and a
// restore needs them where they were.
type apart struct {
	memory *Memory

	mu        sync.Mutex
	allocated []piece // by address
}

// Where this memory is wanted: behind the windows of all devices. Elsewhere does as well.
const (
	apartAddress = 0x5c00_0000_0000
	apartBytes   = 128 << 30 // a device
)

// Alloc gets memory, in whole chunks.
func (a *apart) Alloc(bytes uint64) (uint64, error) {
	bytes = (bytes + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)
	if err := a.memory.reserve(bytes); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := a.get(bytes)
	if err != nil {
		a.memory.release(bytes)
		return 0, a.memory.context.noted("get memory for a checkpoint", err)
	}
	at, _ := slices.BinarySearchFunc(a.allocated, p, func(x, y piece) int { return cmp.Compare(x.Address, y.Address) })
	a.allocated = slices.Insert(a.allocated, at, p)
	return p.Address, nil
}

// get makes memory at the first addresses that are free. mu is held.
func (a *apart) get(bytes uint64) (p piece, err error) {
	d := a.memory.device
	wanted := apartAddress + uint64(d.ordinal)*apartBytes
	for _, other := range a.allocated {
		if other.Address < wanted+bytes && wanted < other.End() {
			wanted = other.End()
		}
	}
	p.Bytes = bytes
	if p.Address, err = d.driver.Reserve(bytes, wanted); err != nil {
		return p, err
	}
	if p.allocation, err = d.driver.Create(bytes, d.ordinal); err != nil {
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

// Free gives it back. Nothing may be at work on it.
func (a *apart) Free(address uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.allocated, func(p piece) bool { return p.Address == address })
	if at < 0 {
		return fmt.Errorf("give back memory of a checkpoint: nothing is at %#x", address)
	}
	p := a.allocated[at]
	a.allocated = slices.Delete(a.allocated, at, at+1)
	return a.memory.context.noted("give back memory of a checkpoint", a.giveBack(p))
}

func (a *apart) giveBack(p piece) error {
	driver := a.memory.device.driver
	a.memory.release(p.Bytes)
	return errors.Join(driver.Unmap(p.Address, p.Bytes), driver.Release(p.allocation), driver.Unreserve(p.Address, p.Bytes))
}

// ReadAt copies out of it.
func (a *apart) ReadAt(p []byte, address int64) (int, error) {
	return a.memory.context.copyOut(p, uint64(address))
}

// Usage reports free and total bytes of the device.
func (a *apart) Usage() (free, total uint64) { return a.memory.Usage() }

// releaseAll gives back what the context had. Nothing of it runs any more.
func (a *apart) releaseAll() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, p := range a.allocated {
		errs = append(errs, a.giveBack(p))
	}
	a.allocated = nil
	return errors.Join(errs...)
}

// digestCode is the kernel that computes digests, as code that is loaded already.
type digestCode struct {
	*Context
	module gpu.Module
}

// LoadModule returns the code, and leaves it to who comes next to load it again.
func (c *digestCode) LoadModule(gpu.Image, gpu.LoadOptions) (gpu.Module, error) { return c.module, nil }
