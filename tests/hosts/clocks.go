package hosts

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/tests/hosts/walltime"
)

// Clocks say how far a host's clocks are ahead of the machine's.
type Clocks struct {
	// Wall is in effect for programs of package walltime only.
	Wall time.Duration
	// Boot and Monotonic are in effect for all programs. Neither clock can be before 0.
	Boot, Monotonic time.Duration
}

// SetClocks sets the host's clocks: Wall at once, the others from the next Boot on.
func (h *Host) SetClocks(clocks Clocks) {
	h.t.Helper()
	h.mu.Lock()
	h.clocks = clocks
	on := h.init != nil
	h.mu.Unlock()
	if !on {
		return
	}
	if err := h.Do(clocks.tell); err != nil {
		h.t.Fatalf("set the clock of %s: %v", h.Name, err)
	}
}

// tell tells programs of the host how far its wall clock is ahead. Those that run see it change.
func (c Clocks) tell() error {
	file, err := os.OpenFile(walltime.File, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.Wall)), 0)
	return err
}

// flags returns those of unshare for a time namespace; none if the kernel's clocks are the
// machine's.
func (c Clocks) flags() []string {
	if c.Boot == 0 && c.Monotonic == 0 {
		return nil
	}
	// unshare takes whole seconds.
	return []string{
		"--time", fmt.Sprintf("--boottime=%d", c.Boot/time.Second),
		fmt.Sprintf("--monotonic=%d", c.Monotonic/time.Second),
	}
}
