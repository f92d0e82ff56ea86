package writetrack

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/ioctl"
)

// The kernel's interface: linux/userfaultfd.h, and PAGEMAP_SCAN of linux/fs.h.
const (
	userModeOnly = 1 // UFFD_USER_MODE_ONLY

	apiVersion      = 0xaa
	wpUnpopulated   = 1 << 13
	wpAsync         = 1 << 15
	registerModeWP  = 1 << 1
	ioctlAPI        = 0xc018aa3f
	ioctlRegister   = 0xc020aa00
	ioctlUnregister = 0x8010aa01
	ioctlProtect    = 0xc018aa06
	ioctlScan       = 0xc0606610

	scanProtect = 1 << 0 // PM_SCAN_WP_MATCHING
	scanChecked = 1 << 1 // PM_SCAN_CHECK_WPASYNC

	pageWritten = 1 << 1
	pagePresent = 1 << 3
	pageSwapped = 1 << 4
	pageZero    = 1 << 5
)

type apiRequest struct{ api, features, ioctls uint64 }

type span struct{ start, bytes uint64 }

type registration struct {
	span
	mode, ioctls uint64
}

type protection struct {
	span
	mode uint64
}

// pages is a part of the address space: struct page_region.
type pages struct{ start, end, categories uint64 }

// scan is struct pm_scan_arg.
type scan struct {
	size, flags, start, end, walkEnd uint64
	found                            uintptr
	room, maxPages                   uint64
	inverted, mask, anyOf, reported  uint64
}

// New makes a userfaultfd for this process.
func New() (*os.File, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly, 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("userfaultfd: %w", errno)
	}
	return os.NewFile(fd, "userfaultfd"), nil
}

// enable chooses the features of a userfaultfd, once.
func enable(uffd *os.File) error {
	request := apiRequest{api: apiVersion, features: wpAsync | wpUnpopulated}
	_, err := ioctl.Call(uffd, ioctlAPI, unsafe.Pointer(&request))
	return err
}

// register lets pages of a range be protected.
func register(uffd *os.File, where span) error {
	request := registration{span: where, mode: registerModeWP}
	_, err := ioctl.Call(uffd, ioctlRegister, unsafe.Pointer(&request))
	return err
}

// unregister ends that, and pages that are protected are so no longer.
func unregister(uffd *os.File, where span) error {
	_, err := ioctl.Call(uffd, ioctlUnregister, unsafe.Pointer(&where))
	return err
}

// unprotect lets pages count as written.
func unprotect(uffd *os.File, where span) error {
	request := protection{span: where}
	_, err := ioctl.Call(uffd, ioctlProtect, unsafe.Pointer(&request))
	return err
}

// protectWritten protects the pages from start on that are in memory and not protected, as many as
// fit into found. It returns how many runs of pages these are, and where it ended. To ask whether
// pages are a file's would take three times as long; those of a tracked mapping are not.
func protectWritten(pagemap *os.File, start, end uint64, found []pages) (count int, next uint64, err error) {
	request := scan{
		flags: scanProtect | scanChecked, start: start, end: end,
		found: uintptr(unsafe.Pointer(unsafe.SliceData(found))), room: uint64(len(found)),
		inverted: pageZero, mask: pageZero | pageWritten, anyOf: pagePresent | pageSwapped,
		reported: pageWritten,
	}
	request.size = uint64(unsafe.Sizeof(request))
	result, err := ioctl.Call(pagemap, ioctlScan, unsafe.Pointer(&request))
	runtime.KeepAlive(found)
	return int(result), request.walkEnd, err
}
