package wire

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Futex operations, shared between processes.
const (
	futexWait = 0
	futexWake = 1
)

// SleepOn sleeps until the word is woken, differs from expected, or the limit has passed. It may
// return early.
func SleepOn(word *atomic.Uint32, expected uint32, limit time.Duration) {
	timeout := unix.NsecToTimespec(int64(limit))
	_, _, _ = unix.Syscall6(
		unix.SYS_FUTEX,
		uintptr(unsafe.Pointer(word)),
		futexWait,
		uintptr(expected),
		uintptr(unsafe.Pointer(&timeout)),
		0,
		0,
	)
}

// Wake wakes all sleepers on the word, so that a hostile sleeper cannot consume another one's
// wake-up.
func Wake(word *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
}

// yield yields the core to another thread.
func yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// currentCore returns the core that this thread runs on.
func currentCore() (core uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0)
	return core
}
