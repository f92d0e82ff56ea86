package inherit

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastSignal is the highest signal of Linux.
const lastSignal = 64

// ignored is the kernel's SIG_IGN.
const ignored = 1

// signalAction is at least as large as the kernel's structure, which begins with the handler.
type signalAction [8]uint64

// ResetSignals gives each signal that was ignored when this process was started its default action,
// because children inherit that. Go leaves such signals as they are, and resets all others.
func ResetSignals() {
	const maskBytes = 8
	for signal := uintptr(1); signal <= lastSignal; signal++ {
		var action, standard signalAction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, 0, uintptr(unsafe.Pointer(&action)), maskBytes, 0, 0)
		if errno == 0 && action[0] == ignored {
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&standard)), 0, maskBytes, 0, 0)
		}
	}
}
