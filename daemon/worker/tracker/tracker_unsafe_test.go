package tracker

import (
	"errors"
	"math/rand"
	"net"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/writetrack"
	"github.com/phos-gpu/phos/tests/harness"
)

// offers sends what a program offers beside its Hello, and returns what becomes of it.
func offers(t *testing.T, file *os.File) (*Tracker, error) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	far := os.NewFile(uintptr(pair[1]), "far")
	defer far.Close()
	conn, err := net.FileConn(far)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var beside []byte
	if file != nil {
		beside = unix.UnixRights(int(file.Fd()))
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, beside, nil, 0); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(pair[0])
	return Receive(conn)
}

// TestTracker: what a worker writes into memory that is tracked counts as written, while phosd
// tracks.
func TestTracker(t *testing.T) {
	userfaultfd, err := writetrack.New()
	harness.Need(t, "userfaultfd", err)
	defer userfaultfd.Close()
	kept, err := offers(t, userfaultfd)
	if errors.Is(err, ErrNone) {
		harness.Need(t, "userfaultfd with asynchronous write protection (Linux 6.7)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pagemap.Close()
	size := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 4*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	memory[0], memory[size] = 1, 1
	tracker := writetrack.NewTracker(userfaultfd, pagemap)
	if err := tracker.Register(start, start+uint64(len(memory))); err != nil {
		t.Fatal(err)
	}
	written := func() (bytes uint64) {
		err := tracker.Protect(start, start+uint64(len(memory)), func(start, end uint64) error {
			bytes += end - start
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	if got := written(); got != uint64(2*size) {
		t.Errorf("%d bytes were written at first", got)
	}
	for _, test := range []struct {
		on    bool
		order uint64
		want  uint64
	}{{false, 1, 0}, {true, 3, uint64(size)}, {false, 2, uint64(size)}} { // the last comes too late
		if number, err := kept.Switch(test.on, test.order); err != nil || number == 0 {
			t.Fatal(number, err)
		}
		kept.Wrote(start+uint64(size)+1, 8)
		if got := written(); got != test.want {
			t.Errorf("tracking is on: %v: %d bytes count as written, want %d", test.on, got, test.want)
		}
	}
	// Registered memory is guarded by another userfaultfd, of which a page can have only one.
	kept.Release(os.Getpid(), start+1, start+2)
	err = tracker.Protect(start, start+uint64(size), func(uint64, uint64) error { return nil })
	if !errors.Is(err, writetrack.ErrChanged) {
		t.Errorf("released memory is still tracked: %v", err)
	}
}

// TestNone: a worker has none of a program that has none, or sends something else.
func TestNone(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, file := range []*os.File{null, nil} {
		kept, err := offers(t, file)
		if !errors.Is(err, ErrNone) || kept != nil {
			t.Errorf("%v: %v, %v", file, kept, err)
		}
		kept.Wrote(0, 1)
		kept.Release(os.Getpid(), 0, 1)
		if number, err := kept.Switch(true, 1); err != nil || number != 0 {
			t.Errorf("%d, %v", number, err)
		}
	}
}

// TestWithout: parts of ranges, by single addresses.
func TestWithout(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 2000 {
		whole := span{uint64(random.Intn(20)), uint64(20 + random.Intn(20))}
		var others []span
		for range random.Intn(4) {
			start := uint64(random.Intn(40))
			others = append(others, span{start, start + uint64(random.Intn(10))})
		}
		in := func(at uint64, all []span) (count int) {
			for _, each := range all {
				if each.start <= at && at < each.end {
					count++
				}
			}
			return count
		}
		left := without(whole, others)
		for at := range uint64(50) {
			want := min(in(at, []span{whole}), 1-min(1, in(at, others)))
			if got := in(at, left); got != want {
				t.Fatalf("%v without %v is %v: %d is in it %d times, want %d", whole, others, left, at, got, want)
			}
		}
	}
}
