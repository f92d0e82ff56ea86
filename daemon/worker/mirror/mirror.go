package mirror

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrPrivate is returned when not all of the memory is a shared file mapping.
var ErrPrivate = errors.New("memory is not a shared mapping of a file")

const pageBytes = 4096

// Mirror is a range of a program's memory, mapped into this process.
type Mirror struct {
	pages  []byte
	memory []byte
	// parts keep their files open. If the driver is itself a phosd (nested), it finds removed files
	// through them.
	parts []Part
}

// Memory returns exactly the requested range. It lies at the program's address if that was free in
// this process.
func (m *Mirror) Memory() []byte { return m.memory }

// Close unmaps the memory and closes the files.
func (m *Mirror) Close() error { return errors.Join(unmap(m.pages), Close(m.parts)) }

// Borrow gets the parts from a process with more rights. The caller closes their files.
type Borrow func(address, bytes uint64) ([]Part, error)

// Open maps the files behind a range of a program's memory. Files that this process may not open
// are borrowed, unless borrow is nil. It returns ErrPrivate if part of the range has no file.
func Open(program proc.Identity, address, bytes uint64, borrow Borrow) (*Mirror, error) {
	parts, err := Find(program, address, bytes, openItself(program))
	if errors.Is(err, ErrUnreachable) && borrow != nil {
		parts, err = borrow(address, bytes)
	}
	if err != nil {
		return nil, err
	}
	granule, err := granuleOf(parts)
	if err != nil {
		return nil, errors.Join(err, Close(parts))
	}
	start, end := whole(address, address+bytes, granule)
	all, err := reserve(start, end-start, granule)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map %d bytes: %w", end-start, err), Close(parts))
	}
	m := &Mirror{pages: all, memory: all[address-start : address-start+bytes : address-start+bytes], parts: parts}
	for _, part := range parts {
		if err := m.place(part, start); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// place maps a part at its place in the mirror.
func (m *Mirror) place(part Part, start uint64) error {
	granule, err := granuleOf([]Part{part})
	if err != nil {
		return err
	}
	given := part.Start
	part.Start, part.End = whole(part.Start, part.End, granule)
	part.Offset -= min(part.Offset, given-part.Start)
	if part.Start < start || part.End > start+uint64(len(m.pages)) || part.Start >= part.End {
		return fmt.Errorf("borrowed part %#x to %#x is outside of the requested range", part.Start, part.End)
	}
	info, err := part.File.Stat()
	if err != nil {
		return err
	}
	if _, size := whole(0, uint64(info.Size()), granule); part.Offset+part.End-part.Start > size {
		return fmt.Errorf("%w: %s is shorter than its mapping", ErrPrivate, part.File.Name())
	}
	return over(m.pages[part.Start-start:part.End-start], part.File, int64(part.Offset))
}

// granuleOf returns the size of the largest pages of the parts' files. A file in huge pages is
// mapped and unmapped in those only: the kernel would round the end of a shorter mapping up, over
// what lies there.
func granuleOf(parts []Part) (bytes uint64, err error) {
	bytes = pageBytes
	for _, part := range parts {
		var system unix.Statfs_t
		if err := unix.Fstatfs(int(part.File.Fd()), &system); err != nil {
			return 0, fmt.Errorf("page size of %s: %w", part.File.Name(), err)
		}
		if system.Type == unix.HUGETLBFS_MAGIC {
			bytes = max(bytes, uint64(system.Bsize))
		}
	}
	return bytes, nil
}

// pages rounds a range to whole pages.
func pages(address, bytes uint64) (start, end uint64) {
	return whole(address, address+bytes, pageBytes)
}

// whole rounds a range to multiples of granule, a power of two.
func whole(start, end, granule uint64) (first, last uint64) {
	return start &^ (granule - 1), (end + granule - 1) &^ (granule - 1)
}
