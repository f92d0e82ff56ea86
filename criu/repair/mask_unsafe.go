package repair

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ptraceSetSigmask is PTRACE_SETSIGMASK, which package unix lacks.
const ptraceSetSigmask = 0x420b

// setBlocked sets the signal mask of a thread that the calling thread traces and has stopped.
func setBlocked(thread int, signals uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, ptraceSetSigmask, uintptr(thread), unsafe.Sizeof(signals),
		uintptr(unsafe.Pointer(&signals)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("set signals: %w", errno)
	}
	return nil
}
