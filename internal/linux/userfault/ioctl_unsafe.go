package userfault

import (
	"os"
	"runtime"
	"unsafe"

	"github.com/phos-gpu/phos/internal/linux/ioctl"
)

// The kernel's interface: linux/userfaultfd.h.
const (
	ioctlWake = 0x8010aa02
	ioctlCopy = 0xc028aa03
	ioctlZero = 0xc020aa04
	// ioctlProtect is refused for memory that is not registered for it.
	ioctlProtect = 0xc018aa06
)

type span struct{ start, bytes uint64 }

// copyRequest is struct uffdio_copy.
type copyRequest struct {
	to    uint64
	from  uintptr
	bytes uint64
	mode  uint64
	done  int64
}

// zeroRequest is struct uffdio_zeropage.
type zeroRequest struct {
	span
	mode uint64
	done int64
}

// protection is struct uffdio_writeprotect.
type protection struct {
	span
	mode uint64
}

// copyPages gives pages a content.
func copyPages(file *os.File, to uint64, content []byte) (done int64, err error) {
	request := copyRequest{to: to, from: uintptr(unsafe.Pointer(unsafe.SliceData(content))), bytes: uint64(len(content))}
	_, err = ioctl.Call(file, ioctlCopy, unsafe.Pointer(&request))
	runtime.KeepAlive(content)
	return request.done, err
}

// zeroPages gives pages of zeros.
func zeroPages(file *os.File, where span) (done int64, err error) {
	request := zeroRequest{span: where}
	_, err = ioctl.Call(file, ioctlZero, unsafe.Pointer(&request))
	return request.done, err
}

// wake lets threads go on that wait for pages.
func wake(file *os.File, where span) error {
	_, err := ioctl.Call(file, ioctlWake, unsafe.Pointer(&where))
	return err
}

// unprotect lets pages be written that were protected.
func unprotect(file *os.File, where span) error {
	request := protection{span: where}
	_, err := ioctl.Call(file, ioctlProtect, unsafe.Pointer(&request))
	return err
}
