package memory

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/reclaim"
	"github.com/phos-gpu/phos/hijack/abi"
)

// hostMappings keeps the program's memory and open devices in step: every open device has every
// allocation of the arena and all registered memory mapped. Modules with managed variables are
// loaded without the session's lock while devices open and close.
type hostMappings struct {
	core    *core.Core
	arena   *heap.Arena
	reclaim *reclaim.Reclaimer

	mu         sync.Mutex             // guards Device.Opened, and what is mapped in the devices
	registered map[uint64]*registered // by address
}

// allocate takes pages of the arena and maps them in every open device.
func (h *hostMappings) allocate(bytes uint64) (gpu.Range, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, err := h.arena.Allocate(bytes)
	if err != nil {
		return gpu.Range{}, err
	}
	mapped, err := h.mapEverywhere(r.Address, pages(h.core.Options.Arena, r))
	if err == nil {
		return r, nil
	}
	if mapped {
		h.freeLater(r)
	} else {
		_ = h.arena.Free(r.Address) // the first error says more
	}
	return gpu.Range{}, err
}

// mapEverywhere maps memory in every open device. After an error, mapped reports whether some
// device maps it. mu is held.
func (h *hostMappings) mapEverywhere(address uint64, memory []byte) (mapped bool, err error) {
	for _, d := range h.core.Devices {
		c := d.Opened.Load()
		if c == nil {
			continue
		}
		if err := (*c).Memory().MapHost(address, memory); err != nil {
			return mapped, fmt.Errorf("show it to GPU %d: %w", d.Ordinal, err)
		}
		mapped = true
	}
	return mapped, nil
}

// free unmaps pages of the arena and gives them back; if frees are deferred, when all GPUs are
// idle.
func (h *hostMappings) free(r gpu.Range) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freeLater(r)
}

// freeLater is free with mu held.
func (h *hostMappings) freeLater(r gpu.Range) {
	h.later(r.Bytes, func() {
		h.unmap(r.Address)
		if err := h.arena.Free(r.Address); err != nil {
			h.core.Log.Warn("free pinned memory", "address", r.Address, "error", err)
		}
	})
}

// later runs do, which unmaps memory, with mu held: at once, or, if frees are deferred, when all
// GPUs are idle. mu is held.
func (h *hostMappings) later(bytes uint64, do func()) {
	if !h.reclaim.Defers() {
		do()
		return
	}
	h.reclaim.Defer(bytes, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		do()
	})
	h.reclaim.Freed()
}

// unmap takes memory out of every open device. mu is held.
func (h *hostMappings) unmap(address uint64) {
	for _, d := range h.core.Devices {
		if c := d.Opened.Load(); c != nil {
			_ = (*c).Memory().UnmapHost(address) // was perhaps never mapped there
		}
	}
}

// open maps all memory in a device that opens. If that fails, the device cannot be used.
func (h *hostMappings) open(d *core.Device, c gpu.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.Opened.Store(&c)
	for r := range h.arena.Allocations() {
		if err := c.Memory().MapHost(r.Address, pages(h.core.Options.Arena, r)); err != nil {
			return fmt.Errorf("show pinned memory to GPU %d: %w", d.Ordinal, err)
		}
	}
	for address, g := range h.registered {
		if err := c.Memory().MapHost(address, g.shared.Memory()); err != nil {
			return fmt.Errorf("show registered memory to GPU %d: %w", d.Ordinal, err)
		}
	}
	return nil
}

// close is called before a device is closed: from now on nothing is mapped there.
func (h *hostMappings) close(d *core.Device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.Opened.Store(nil)
}

// add maps registered memory in every open device, and in those that will be. If it fails, the
// memory is closed, once no device maps it.
func (h *hostMappings) add(g *registered) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.registered {
		if g.bounds.Address < other.bounds.End() && other.bounds.Address < g.bounds.End() {
			_ = g.shared.Close()
			return &gpu.Error{Op: "register memory", Code: abi.HostMemoryAlreadyRegistered}
		}
	}
	mapped, err := h.mapEverywhere(g.bounds.Address, g.shared.Memory())
	if err != nil {
		if mapped {
			h.later(0, func() { h.discard(g) })
		} else {
			_ = g.shared.Close()
		}
		return err
	}
	if h.registered == nil {
		h.registered = map[uint64]*registered{}
	}
	h.registered[g.bounds.Address] = g
	return nil
}

// remove unmaps registered memory that no work uses, and closes it.
func (h *hostMappings) remove(g *registered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.registered[g.bounds.Address] != g {
		return
	}
	delete(h.registered, g.bounds.Address)
	h.discard(g)
}

// discard unmaps registered memory and closes it. mu is held.
func (h *hostMappings) discard(g *registered) {
	h.unmap(g.bounds.Address)
	if err := g.shared.Close(); err != nil {
		h.core.Log.Warn("unmap registered memory", "address", g.bounds.Address, "error", err)
	}
}

// find returns registered memory that a range lies in.
func (h *hostMappings) find(r gpu.Range) (gpu.Range, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.registered {
		if g.bounds.Contains(r) {
			return g.bounds, true
		}
	}
	return gpu.Range{}, false
}

// end closes all registered memory. All devices are closed.
func (h *hostMappings) end() {
	for _, g := range h.registered {
		_ = g.shared.Close()
	}
	clear(h.registered)
}

// pages returns an allocation of the arena as this process has it.
func pages(arena core.Arena, r gpu.Range) []byte {
	offset := r.Address - arena.Address()
	return arena.Bytes()[offset : offset+r.Bytes]
}
