package pager

import (
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/ioctl"
	"github.com/phos-gpu/phos/internal/linux/userfault"
	"github.com/phos-gpu/phos/tests/harness"
)

// The kernel's interface that only CRIU uses otherwise: linux/userfaultfd.h.
const (
	ioctlAPI        = 0xc018aa3f
	ioctlRegister   = 0xc020aa00
	registerMissing = 1
	eventUnmap      = 1 << 6 // UFFD_FEATURE_EVENT_UNMAP
)

// registered returns memory of this process whose pages the space gives.
func registered(t *testing.T, bytes int) (s *space, memory []byte, start uint64) {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	file := os.NewFile(fd, "userfaultfd")
	t.Cleanup(func() { _ = file.Close() })
	api := [3]uint64{0xaa, eventUnmap}
	if _, err := ioctl.Call(file, ioctlAPI, unsafe.Pointer(&api)); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	start = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	register := [4]uint64{start, uint64(bytes), registerMissing}
	if _, err := ioctl.Call(file, ioctlRegister, unsafe.Pointer(&register)); err != nil {
		t.Fatal(err)
	}
	return &space{file: userfault.File{File: file}, missing: newPieces()}, memory, start
}

// nextEvent follows the events until one has happened.
func (s *space) nextEvent(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "an event", func() bool {
		events, err := s.file.Events()
		if err != nil {
			t.Fatal(err)
		}
		s.follow(events)
		return len(events) > 0
	})
}

// TestUnmappedFault: a thread that waits for a page is woken when the page was unmapped.
func TestUnmappedFault(t *testing.T) {
	s, memory, start := registered(t, 4*int(pageBytes))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	touched := make(chan error, 1)
	fd := int(write.Fd())
	go func() {
		_, _, errno := unix.Syscall(unix.SYS_WRITE, uintptr(fd), uintptr(start), uintptr(pageBytes))
		touched <- errno
	}()
	s.nextEvent(t)
	if len(s.faults) != 1 || s.faults[0] != start {
		t.Fatalf("faults %#x, want %#x", s.faults, start)
	}
	unmapped := make(chan error, 1)
	go func() { unmapped <- unix.Munmap(memory) }()
	s.nextEvent(t)
	if err := <-unmapped; err != nil {
		t.Fatal(err)
	}
	if err := s.zero(start); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-touched:
		if !errors.Is(err, unix.EFAULT) {
			t.Errorf("write(2) from it: %v, want EFAULT", err)
		}
	case <-time.After(harness.Patience):
		t.Error("the thread still waits")
	}
}
