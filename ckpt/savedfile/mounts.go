package savedfile

import (
	"sync"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// mountTable has the devices of mounts. It reads each mount namespace once, when it is needed.
// Several goroutines may use it.
type mountTable struct {
	mu      sync.Mutex // guards all below
	devices map[uint64]uint64
	spaces  map[string]bool
}

// device returns the device of a mount in the mount namespace of a process.
func (t *mountTable) device(pid int, mount uint64) (device uint64, known bool) {
	if device, known = t.lookUp(mount); known {
		return device, true
	}
	space, err := proc.Identity{PID: pid}.Namespace("mnt")
	if err != nil || !t.first(space) {
		return 0, false
	}
	mounts, err := proc.Mounts(pid)
	if err != nil {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, device := range mounts {
		t.devices[id] = device
	}
	device, known = t.devices[mount]
	return device, known
}

// lookUp returns the device of a mount that has been read.
func (t *mountTable) lookUp(mount uint64) (device uint64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	device, known = t.devices[mount]
	return device, known
}

// first reports whether a mount namespace is new, and adds it.
func (t *mountTable) first(space string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.devices == nil {
		t.devices, t.spaces = make(map[uint64]uint64), make(map[string]bool)
	}
	seen := t.spaces[space]
	t.spaces[space] = true
	return !seen
}
