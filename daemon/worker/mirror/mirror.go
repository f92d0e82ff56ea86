package mirror

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrPrivate means that memory is not, or not all, that of files which could be mapped here as
// well.
var ErrPrivate = errors.New("the memory is not shared with a file that can be opened")

const pageBytes = 4096

// Mirror is a part of a program's memory, mapped here too.
type Mirror struct {
	pages  []byte
	memory []byte
	// parts keep their files open: a driver that is itself a phosd finds them there, where their names
	// are gone.
	parts []Part
}

// Memory is exactly the range that was asked for. It lies at the program's address where that was
// free here.
func (m *Mirror) Memory() []byte { return m.memory }

// Close unmaps it.
func (m *Mirror) Close() error { return errors.Join(unmap(m.pages), Close(m.parts)) }

// Borrow has somebody find the parts who may do what this process may not. They are this process's
// to close.
type Borrow func(address, bytes uint64) ([]Part, error)

// Open maps the files behind a range of a program's memory. What this process may not open itself
// it borrows, unless there is nobody to borrow from: nil. The error is ErrPrivate where there is no
// file, or not for all.
func Open(program proc.Identity, address, bytes uint64, borrow Borrow) (*Mirror, error) {
	parts, err := Find(program, address, bytes, openItself(program))
	if errors.Is(err, ErrUnreachable) && borrow != nil {
		parts, err = borrow(address, bytes)
	}
	if err != nil {
		return nil, err
	}
	start, end := pages(address, bytes)
	all, err := reserve(start, end-start)
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

// place puts the pages of a part where they belong.
func (m *Mirror) place(part Part, start uint64) error {
	if part.Start < start || part.End > start+uint64(len(m.pages)) || part.Start >= part.End {
		return fmt.Errorf("a part from %#x to %#x was not asked for", part.Start, part.End)
	}
	info, err := part.File.Stat()
	if err != nil {
		return err
	}
	if size := uint64(info.Size()); part.Offset+part.End-part.Start > (size+pageBytes-1)&^(pageBytes-1) {
		return fmt.Errorf("%w: %s is shorter than what is mapped of it", ErrPrivate, part.File.Name())
	}
	return over(m.pages[part.Start-start:part.End-start], part.File, int64(part.Offset))
}

// pages are those that a range lies in.
func pages(address, bytes uint64) (start, end uint64) {
	return address &^ (pageBytes - 1), (address + bytes + pageBytes - 1) &^ (pageBytes - 1)
}
