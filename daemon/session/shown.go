package session

import (
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// shown keeps pages of the arena and open devices in step: every device that is open has every allocation mapped. Modules
// with managed variables are loaded while no lock of the session is held, and devices open and close meanwhile.
type shown struct {
	mu sync.Mutex // guards the devices' opened, and what is mapped in them
}

// showArena takes pages of the arena and maps them in every device that is open. It needs no lock of the session.
func (s *Session) showArena(bytes uint64) (gpu.Range, error) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	r, err := s.arena.Allocate(bytes)
	if err != nil {
		return gpu.Range{}, err
	}
	for _, d := range s.devices {
		c := d.opened.Load()
		if c == nil {
			continue
		}
		if err := mapHost(*c, s.options.Arena, r); err != nil {
			_ = s.hideAndFree(r)
			return gpu.Range{}, err
		}
	}
	return r, nil
}

// freePinned hides pages from the devices and gives them back. It needs no lock of the session.
func (s *Session) freePinned(r gpu.Range) error {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	return s.hideAndFree(r)
}

func (s *Session) hideAndFree(r gpu.Range) error {
	for _, d := range s.devices {
		if c := d.opened.Load(); c != nil {
			_ = (*c).Memory().UnmapHost(r.Address) // was perhaps never mapped there
		}
	}
	return s.arena.Free(r.Address)
}

// showAll makes a device one of those that are open.
func (s *Session) showAll(d *device, c gpu.Context) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	d.opened.Store(&c)
	for r := range s.arena.Allocations() {
		if err := mapHost(c, s.options.Arena, r); err != nil {
			s.log.Error("pinned memory is not visible on a GPU", "gpu", d.ordinal, "error", err)
		}
	}
}

// showNothing comes before a device is closed: nobody maps anything there any more.
func (s *Session) showNothing(d *device) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	d.opened.Store(nil)
}
