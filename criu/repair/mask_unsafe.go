package repair

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ptraceSetSigmask is PTRACE_SETSIGMASK, which package unix does not have.
const ptraceSetSigmask = 0x420b

// setBlocked sets the blocked signals of a thread that this one traces and has stopped.
func setBlocked(thread int, signals uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, ptraceSetSigmask, uintptr(thread), unsafe.Sizeof(signals),
		uintptr(unsafe.Pointer(&signals)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("set signals: %w", errno)
	}
	return nil
}
