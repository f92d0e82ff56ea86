package keeper

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGroups sets the supplementary groups of the calling thread alone; package syscall would set those of all threads.
func setGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return errno
	}
	return nil
}
