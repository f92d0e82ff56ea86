package cuda

import "sync"

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
