package fsuid

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadGroups sets the groups of this thread only. The functions of the C library and of Go
// would set them for all threads.
func setThreadGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return errno
	}
	return nil
}
