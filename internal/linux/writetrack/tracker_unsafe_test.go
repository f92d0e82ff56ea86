package writetrack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

const page = 4096

// area is memory of this process that is tracked.
type area struct {
	*testing.T
	*Tracker
	uffd   *os.File
	memory []byte
	start  uint64
}

// newArea returns so many pages that were never touched.
func newArea(t *testing.T, count int) *area {
	t.Helper()
	uffd, err := New()
	if err == nil {
		err = Enable(uffd)
	}
	harness.Need(t, "userfaultfd with asynchronous write protection (Linux 6.7)", err)
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(-1, 0, count*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(uffd.Close(), pagemap.Close(), unix.Munmap(memory)) })
	a := &area{
		T: t, Tracker: NewTracker(uffd, pagemap), uffd: uffd, memory: memory,
		start: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))),
	}
	return a
}

// register begins to track all of it.
func (a *area) register() {
	a.Helper()
	if err := a.Register(a.start, a.start+uint64(len(a.memory))); err != nil {
		a.Fatal(err)
	}
}

// written returns the pages that Protect finds.
func (a *area) written() (found []int) {
	a.Helper()
	err := a.Protect(a.start, a.start+uint64(len(a.memory)), func(start, end uint64) error {
		for at := start; at < end; at += page {
			found = append(found, int(at-a.start)/page)
		}
		return nil
	})
	if err != nil {
		a.Fatal(err)
	}
	return found
}

// wants compares the pages that Protect finds.
func (a *area) wants(what string, pages ...int) {
	a.Helper()
	if found := a.written(); !equal(found, pages) {
		a.Errorf("%s: pages %v were written, want %v", what, found, pages)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestWrites: what was written since the last look is found, and nothing else.
func TestWrites(t *testing.T) {
	a := newArea(t, 64)
	a.memory[0], a.memory[5*page], a.memory[6*page+7] = 1, 2, 3
	a.register()
	a.wants("at first", 0, 5, 6)
	a.wants("nothing was written")
	_ = a.memory[5*page] + a.memory[9*page] // reading is no writing, also of what was never written
	a.wants("read")
	a.memory[5*page]++
	a.memory[40*page]++ // new
	a.wants("stored", 5, 40)
	file, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Read(a.memory[6*page : 6*page+10]); err != nil {
		t.Fatal(err)
	}
	a.wants("read(2) into it", 6)
	a.memory[0] = 1
	a.wants("the same value", 0)
	if err := MarkWritten(a.uffd, a.start+5*page+1, a.start+6*page+1); err != nil {
		t.Fatal(err)
	}
	a.wants("marked", 5, 6)
	if err := Release(a.uffd, os.Getpid(), a.start, a.start+uint64(len(a.memory))); err != nil {
		t.Fatal(err)
	}
	if err := a.Protect(a.start, a.start+page, func(uint64, uint64) error { return nil }); !errors.Is(err, ErrChanged) {
		t.Errorf("it is still tracked: %v", err)
	}
	a.register()
	a.wants("tracked again", 0, 5, 6, 40)
}

// TestDropped: pages that were dropped are not there, and written ones are found again.
func TestDropped(t *testing.T) {
	a := newArea(t, 64)
	for i := range 10 {
		a.memory[i*page] = byte(i)
	}
	a.register()
	a.wants("at first", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	if err := unix.Madvise(a.memory[2*page:4*page], unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	a.wants("dropped")
	a.memory[3*page] = 1
	a.wants("written again", 3)
}

// TestPartlyTracked: memory beside what is tracked may be marked, too.
func TestPartlyTracked(t *testing.T) {
	a := newArea(t, 64)
	for i := range 64 {
		a.memory[i*page] = 1
	}
	for _, part := range [][2]uint64{{8, 16}, {40, 48}} {
		if err := a.Register(a.start+part[0]*page, a.start+part[1]*page); err != nil {
			t.Fatal(err)
		}
		if err := a.Protect(a.start+part[0]*page, a.start+part[1]*page, func(uint64, uint64) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Protect(a.start, a.start+64*page, func(uint64, uint64) error { return nil }); !errors.Is(err, ErrChanged) {
		t.Errorf("memory that is not tracked counts as unwritten: %v", err)
	}
	if err := MarkWritten(a.uffd, a.start, a.start+64*page); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, part := range [][2]uint64{{8, 16}, {40, 48}} {
		err := a.Protect(a.start+part[0]*page, a.start+part[1]*page, func(start, end uint64) error {
			count += int(end-start) / page
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count != 16 {
		t.Errorf("%d pages are marked, want 16", count)
	}
}

// TestCopies copies memory in rounds while threads write it, also in huge pages, and drop parts of
// it. When they stand still, one more round makes the copy equal.
func TestCopies(t *testing.T) {
	const size = 2048
	a := newArea(t, size)
	_ = unix.Madvise(a.memory, unix.MADV_HUGEPAGE)
	copied := make([]byte, size*page)
	a.memory[0] = 1
	a.register()
	var stop atomic.Bool
	var writers sync.WaitGroup
	for n := range 3 {
		random := rand.New(rand.NewSource(int64(n)))
		writers.Go(func() {
			for !stop.Load() {
				at := random.Intn(size * page)
				if n == 2 && at%50 == 0 {
					first := at / page * page
					_ = unix.Madvise(a.memory[first:first+page*(1+random.Intn(size-first/page))], unix.MADV_DONTNEED)
				}
				atomic.AddUint32((*uint32)(unsafe.Pointer(&a.memory[at&^3])), 1)
			}
		})
	}
	round := func() (count int) {
		for _, each := range a.written() {
			count++
			copy(copied[each*page:], a.memory[each*page:(each+1)*page])
		}
		return count
	}
	for range 200 {
		round()
	}
	stop.Store(true)
	writers.Wait()
	round()
	if count := round(); count != 0 {
		t.Errorf("%d pages were written while nobody wrote", count)
	}
	entries := make([]byte, 8*size)
	if _, err := a.pagemap.ReadAt(entries, int64(a.start/page*8)); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range size {
		const protected = 1 << 57 // Documentation/admin-guide/mm/pagemap.rst
		now := a.memory[i*page : (i+1)*page]
		if binary.LittleEndian.Uint64(entries[8*i:])&protected == 0 {
			if !bytes.Equal(now, make([]byte, page)) {
				t.Fatalf("page %d counts as written, and was not found", i)
			}
			continue
		}
		taken++
		if !bytes.Equal(now, copied[i*page:(i+1)*page]) {
			t.Fatalf("page %d counts as unwritten, and differs from its copy", i)
		}
	}
	if taken < 10 {
		t.Errorf("only %d pages were compared", taken)
	}
}

// TestMoved: memory that was moved or mapped anew is not tracked, so it counts as written.
func TestMoved(t *testing.T) {
	a := newArea(t, 64)
	a.memory[0], a.memory[20*page] = 1, 1
	a.register()
	a.wants("at first", 0, 20)
	at, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(a.start)+20*page, page, page,
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, uintptr(a.start)+40*page, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	nothing := func(uint64, uint64) error { return nil }
	if err := a.Protect(uint64(at), uint64(at)+page, nothing); err == nil {
		t.Error("a page that was moved counts as tracked")
	}
	_, _, errno = unix.Syscall6(unix.SYS_MMAP, uintptr(a.start), page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED, ^uintptr(0), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if err := a.Protect(a.start, a.start+page, nothing); err == nil {
		t.Error("a page that was mapped anew counts as tracked")
	}
}

// TestRefused: what a program sends is used only if it is a userfaultfd.
func TestRefused(t *testing.T) {
	pipe, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer pipe.Close()
	if err := Enable(pipe); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
