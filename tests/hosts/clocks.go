package hosts

import (
	"fmt"
	"time"
)

// ClockVariable tells programs of a host how far its wall clock is ahead of the machine's: a Go
// duration such as "-1m30s". Only programs that are built for tests may read it.
const ClockVariable = "PHOS_TEST_CLOCK_OFFSET"

// Clocks say how far a host's clocks are ahead of the machine's.
type Clocks struct {
	// Wall is only told to programs; see the package comment.
	Wall time.Duration
	// Boot and Monotonic are in effect for all programs. Neither clock can be before 0.
	Boot, Monotonic time.Duration
}

// SetClocks sets the host's clocks: Wall for programs that start from now on, the others from the
// next Boot on.
func (h *Host) SetClocks(clocks Clocks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clocks = clocks
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

// environment returns the variable for programs; none if the wall clock is the machine's.
func (c Clocks) environment() []string {
	if c.Wall == 0 {
		return nil
	}
	return []string{ClockVariable + "=" + c.Wall.String()}
}
