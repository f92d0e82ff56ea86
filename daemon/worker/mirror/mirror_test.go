package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const fileBytes = 16 * pageBytes

// share maps part of a file, as a program does.
func share(t *testing.T, file *os.File, prot, flags int) []byte {
	t.Helper()
	if err := file.Truncate(fileBytes); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 2*pageBytes, 8*pageBytes, prot, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return memory
}

func create(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func self(t *testing.T) proc.Identity {
	t.Helper()
	id, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Open finds files by unusual names too, and removed files while they are open. The mirror has
// another address and the same memory.
func TestOpen(t *testing.T) {
	const both = unix.PROT_READ | unix.PROT_WRITE
	removed := create(t, "removed")
	for _, file := range []*os.File{create(t, "file"), create(t, "a name\nof two lines"), removed} {
		memory := share(t, file, both, unix.MAP_SHARED)
		if file == removed {
			if err := os.Remove(file.Name()); err != nil {
				t.Fatal(err)
			}
		}
		const at, bytes = pageBytes + 100, 3*pageBytes + 7
		m, err := Open(self(t), addressOf(memory)+at, bytes, nil)
		if err != nil {
			t.Fatalf("%q: %v", file.Name(), err)
		}
		memory[at], memory[at+bytes-1] = 11, 12
		seen := m.Memory()
		if len(seen) != bytes || seen[0] != 11 || seen[bytes-1] != 12 {
			t.Errorf("%q: %d mirrored bytes differ from the program's", file.Name(), len(seen))
		}
		seen[5] = 13
		if memory[at+5] != 13 {
			t.Errorf("%q: a store to the mirror is not visible in the program", file.Name())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenRefuses checks that private memory is never mirrored, and that files which this process
// cannot find are found by root through map_files.
func TestOpenRefuses(t *testing.T) {
	const both = unix.PROT_READ | unix.PROT_WRITE
	gone := create(t, "gone")
	lost := share(t, gone, both, unix.MAP_SHARED)
	if err := errors.Join(os.Remove(gone.Name()), gone.Close()); err != nil {
		t.Fatal(err)
	}
	replaced := create(t, "replaced")
	old := share(t, replaced, both, unix.MAP_SHARED)
	err := errors.Join(
		os.Remove(replaced.Name()), os.WriteFile(replaced.Name(), make([]byte, fileBytes), 0o600), replaced.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	short := create(t, "short")
	cut := share(t, short, both, unix.MAP_SHARED)
	if err := short.Truncate(4 * pageBytes); err != nil {
		t.Fatal(err)
	}
	anonymous, err := unix.Mmap(-1, 0, 8*pageBytes, both, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(anonymous) })
	file := create(t, "file")
	for name, memory := range map[string][]byte{
		"shorter than what is mapped": cut,
		"private":                     share(t, file, both, unix.MAP_PRIVATE),
		"read-only":                   share(t, file, unix.PROT_READ, unix.MAP_SHARED),
	} {
		if _, err := Open(self(t), addressOf(memory), 8*pageBytes, nil); !errors.Is(err, ErrPrivate) {
			t.Errorf("%s: got %v, want ErrPrivate", name, err)
		}
	}
	for _, r := range [][2]uint64{{0, pageBytes}, {^uint64(0) - 10, 100}, {addressOf(old), 0}} {
		if _, err := Open(self(t), r[0], r[1], nil); !errors.Is(err, ErrPrivate) {
			t.Errorf("%#x+%#x: got %v, want ErrPrivate", r[0], r[1], err)
		}
	}
	for name, memory := range map[string][]byte{
		"removed and closed": lost, "replaced": old, "anonymous": anonymous,
	} {
		if _, err := Open(self(t), addressOf(memory), 8*pageBytes, nil); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %v, want ErrUnreachable", name, err)
		}
		if os.Geteuid() == 0 {
			borrows(t, name, memory)
		}
	}
}

func borrows(t *testing.T, name string, memory []byte) {
	t.Helper()
	m, err := Open(self(t), addressOf(memory), 8*pageBytes, func(address, bytes uint64) ([]Part, error) {
		return Find(self(t), address, bytes, OpenMapped(self(t), fsuid.Rights{}))
	})
	if err != nil {
		t.Errorf("%s, borrowed: %v", name, err)
		return
	}
	if memory[pageBytes] = 21; m.Memory()[pageBytes] != 21 {
		t.Errorf("%s, borrowed: mirror is not the same memory", name)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestBorrowedTooMuch checks that a part outside of the requested range is refused.
func TestBorrowedTooMuch(t *testing.T) {
	memory, err := unix.Mmap(-1, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	at := addressOf(memory)
	for part, fits := range map[Part]bool{
		{Start: at, End: at + pageBytes}:   true,
		{Start: at, End: at + 2*pageBytes}: false,
		{Start: at - pageBytes, End: at}:   false,
		{Start: at, End: at}:               false,
	} {
		part.File = create(t, "file")
		if err := part.File.Truncate(fileBytes); err != nil {
			t.Fatal(err)
		}
		m, err := Open(self(t), at, pageBytes, func(uint64, uint64) ([]Part, error) { return []Part{part}, nil })
		if (err == nil) != fits {
			t.Errorf("%#x to %#x of %#x: %v", part.Start, part.End, at, err)
		}
		if err == nil {
			err = m.Close()
		}
		if _, open := part.File.Stat(); err == nil && open == nil {
			t.Error("file was not closed")
		}
	}
}

// Adjacent areas form one range, also of several files; areas with a gap do not.
func TestAreas(t *testing.T) {
	mapped := func(yield func(proc.Mapping, error) bool) {
		for _, m := range []proc.Mapping{
			{Start: 0x1000, End: 0x3000}, {Start: 0x3000, End: 0x4000}, {Start: 0x5000, End: 0x6000},
		} {
			if !yield(m, nil) {
				return
			}
		}
	}
	for _, c := range []struct{ start, end, areas uint64 }{
		{0x1000, 0x3000, 1},
		{0x2000, 0x4000, 2},
		{0x3000, 0x5000, 0},
		{0x3000, 0x6000, 0},
		{0x5000, 0x6000, 1},
		{0x0, 0x2000, 0},
		{0x6000, 0x7000, 0},
	} {
		found, err := areasOf(mapped, c.start, c.end)
		if uint64(len(found)) != c.areas || (err == nil) != (c.areas > 0) {
			t.Errorf("%#x to %#x: %v, %v", c.start, c.end, found, err)
		}
	}
}
