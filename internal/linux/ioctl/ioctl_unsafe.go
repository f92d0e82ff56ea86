// Package ioctl calls functions of open files that golang.org/x/sys/unix does not have. Tested by
// the tests of writetrack.
package ioctl

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call calls a function of a file. Unlike one by File.Fd, the call leaves it to the file whether
// its reads block.
func Call(file *os.File, request uintptr, argument unsafe.Pointer) (result uintptr, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(fd uintptr) {
		var errno unix.Errno
		if result, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(argument)); errno != 0 {
			err = errno
		}
	})
	if controlled != nil {
		return 0, controlled
	}
	return result, err
}
