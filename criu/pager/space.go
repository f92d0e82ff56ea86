package pager

import (
	"errors"
	"os"
	"slices"

	"github.com/phos-gpu/phos/internal/linux/userfault"
)

// pageBytes is the length of a page.
var pageBytes = uint64(os.Getpagesize())

// space is the address space of a process.
type space struct {
	number int
	file   userfault.File
	// missing are the pieces that have not come.
	missing pieces
	// sources are ranges that were moved away. The kernel unmaps each a while after the event.
	sources []userfault.Range
	// faults are pages for which threads wait, and could not be given yet.
	faults []uint64
}

// give gives a piece its content, as far as it is still missing. The error is ErrChanging or
// ErrGone of package userfault, or one of the kernel's.
func (s *space) give(one piece, content []byte) error {
	for _, part := range s.missing.within(one.start, one.end) {
		if part.file != one.file || part.offset-one.offset != part.start-one.start {
			continue // other memory was moved here
		}
		if err := s.copy(part, content[part.start-one.start:part.end-one.start]); err != nil {
			return err
		}
	}
	return nil
}

// copy gives a part that is missing. The kernel takes only what is in one mapping, so a part that
// it refuses is tried in halves.
func (s *space) copy(part piece, content []byte) error {
	done, err := s.file.Copy(part.start, content)
	s.missing.take(part.start, part.start+uint64(done))
	part, content = part.clip(part.start+uint64(done), part.end), content[done:]
	bytes := part.end - part.start
	switch {
	case err == nil:
		return nil
	case errors.Is(err, userfault.ErrPresent):
		s.missing.take(part.start, part.start+pageBytes)
		if err := s.file.Wake(part.start, part.start+pageBytes); err != nil {
			return err
		}
		return s.copyRest(part, content, pageBytes)
	case errors.Is(err, userfault.ErrUnmapped) && bytes == pageBytes:
		return s.copyLast(part, content)
	case errors.Is(err, userfault.ErrUnmapped):
		half := bytes / pageBytes / 2 * pageBytes
		if err := s.copy(part.clip(part.start, part.start+half), content[:half]); err != nil {
			return err
		}
		return s.copyRest(part, content, half)
	}
	return err
}

// copyLast gives a page that the kernel has just called unmapped. It says so, too, while it moves
// the page, before it makes the event. That has not been read, so the second answer is the truth.
func (s *space) copyLast(page piece, content []byte) error {
	_, err := s.file.Copy(page.start, content)
	switch {
	case errors.Is(err, userfault.ErrPresent):
		err = s.file.Wake(page.start, page.end)
	case errors.Is(err, userfault.ErrUnmapped):
		err = nil
	}
	if err == nil {
		s.missing.take(page.start, page.end)
	}
	return err
}

// copyRest is copy of what is behind the first bytes of a part.
func (s *space) copyRest(part piece, content []byte, bytes uint64) error {
	if part.end-part.start == bytes {
		return nil
	}
	return s.copy(part.clip(part.start+bytes, part.end), content[bytes:])
}

// zero gives a page of zeros: one that the process has never had.
func (s *space) zero(address uint64) error {
	_, err := s.file.Zero(address, address+pageBytes)
	switch {
	case errors.Is(err, userfault.ErrPresent), errors.Is(err, userfault.ErrUnmapped):
		return s.file.Wake(address, address+pageBytes) // its thread finds out itself
	}
	return err
}

// follow applies what has become of the address space. It returns the userfaultfds of new children.
func (s *space) follow(events []userfault.Event) (children []userfault.File) {
	for _, event := range events {
		switch {
		case event.Fault != nil:
			s.faults = append(s.faults, *event.Fault)
		case event.Fork != nil:
			children = append(children, *event.Fork)
		case event.Removed != nil:
			s.missing.take(event.Removed.Start, event.Removed.End)
		case event.Unmapped != nil:
			s.unmap(*event.Unmapped)
		case event.Moved != nil:
			s.move(*event.Moved)
		}
	}
	return children
}

// unmap drops what was unmapped. The source of a move has lost its pieces with the move, and what
// is there now was moved there since.
func (s *space) unmap(r userfault.Range) {
	if i := slices.Index(s.sources, r); i >= 0 {
		s.sources = slices.Delete(s.sources, i, i+1)
		return
	}
	s.missing.take(r.Start, r.End)
}

// move lets pieces come where their memory was moved to.
func (s *space) move(m userfault.Move) {
	s.sources = append(s.sources, userfault.Range{Start: m.From, End: m.From + m.Bytes})
	moved := s.missing.take(m.From, m.From+m.Bytes)
	s.missing.take(m.To, m.To+m.Bytes)
	for _, one := range moved {
		one.start, one.end = one.start-m.From+m.To, one.end-m.From+m.To
		s.missing.add(one)
	}
}
