package boottime

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since the machine has booted.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME: %v", err)) // every kernel since 2.6.39 has this clock
	}
	return time.Duration(now.Nano())
}
