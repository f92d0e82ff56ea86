package proc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DirectIO reports whether a process may have I/O in flight that writes its memory without page
// faults: it has a file open for direct I/O, or one that is not cached, asynchronous I/O, or a
// thread with files of its own.
func DirectIO(pid int) (bool, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fdinfo", pid))
	if err != nil {
		return false, err
	}
	uncached, err := UncachedMounts(pid)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		info, err := ReadInfo(pid, number)
		if Gone(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		if info.Direct() || uncached[info.Mount] {
			return true, nil
		}
	}
	for m, err := range EachMapping(pid) {
		if err != nil || m.AsynchronousIO() {
			return err == nil, err
		}
	}
	return OwnFiles(pid)
}

// UncachedMounts returns the IDs of the mounts of a process whose file systems may read and write
// its memory themselves, as if each file was open for direct I/O.
func UncachedMounts(pid int) (map[uint64]bool, error) {
	mounts, err := mountsOf(pid)
	if err != nil {
		return nil, err
	}
	found := map[uint64]bool{}
	for _, each := range mounts {
		kind, _, _ := strings.Cut(each.Kind, ".")
		if slices.Contains([]string{"fuse", "fuseblk", "virtiofs", "9p", "cifs", "smb3"}, kind) {
			found[each.ID] = true
		}
	}
	return found, nil
}

// Direct reports whether the file is open for direct I/O.
func (i *Info) Direct() bool { return i.Flags&unix.O_DIRECT != 0 }

// AsynchronousIO reports whether the mapping is the ring of asynchronous I/O.
func (m Mapping) AsynchronousIO() bool { return strings.HasPrefix(m.Path, "/[aio]") }

// OwnFiles reports whether a thread of a process has a table of descriptors of its own.
func OwnFiles(pid int) (bool, error) {
	const files = 2 // KCMP_FILES
	threads, err := Threads(pid)
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		other, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(thread), files, 0, 0, 0)
		if errno == unix.ESRCH {
			continue // it has ended
		}
		if errno != 0 {
			return false, fmt.Errorf("files of thread %d: %w", thread, errno)
		}
		if other != 0 {
			return true, nil
		}
	}
	return false, nil
}
