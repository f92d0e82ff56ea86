package mirror

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrUnreachable is returned when this process may not read the program's mappings or not open a
// mapped file.
var ErrUnreachable = errors.New("the program's mapped files cannot be opened")

// Part is a piece of a program's memory, in whole pages, and its file. The parts of a range are
// adjacent.
type Part struct {
	Start, End, Offset uint64
	File               *os.File
}

// Close closes the files of parts.
func Close(parts []Part) error {
	var errs []error
	for _, part := range parts {
		errs = append(errs, part.File.Close())
	}
	return errors.Join(errs...)
}

// Opener opens the file of a mapping for reading and writing.
type Opener func(m *proc.Mapping) (*os.File, error)

// Find opens the files behind a range of a program's memory. It returns ErrPrivate if part of the
// range is not a writable shared file mapping, and ErrUnreachable if the mappings cannot be read or
// a file cannot be opened.
func Find(program proc.Identity, address, bytes uint64, open Opener) (parts []Part, err error) {
	start, end := pages(address, bytes)
	if bytes == 0 || address+bytes < address || end < start {
		return nil, fmt.Errorf("%w: it is no range", ErrPrivate)
	}
	areas, err := areasOf(proc.EachMapping(program.PID), start, end)
	if err != nil {
		return nil, err
	}
	for i := range areas {
		if a := &areas[i]; !a.Shared() || !a.Readable() || !a.Writable() || a.Inode == 0 {
			return nil, fmt.Errorf("%w: %#x is private or not writable", ErrPrivate, a.Start)
		}
	}
	for i := range areas {
		a := &areas[i]
		file, err := open(a)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrUnreachable, a.Path, err), Close(parts))
		}
		first := max(a.Start, start)
		parts = append(parts, Part{Start: first, End: min(a.End, end), Offset: a.Offset + first - a.Start, File: file})
	}
	if err := program.Check(); err != nil {
		return nil, errors.Join(err, Close(parts))
	}
	return parts, nil
}

// areasOf returns the mappings that cover a range without gaps.
func areasOf(mappings iter.Seq2[proc.Mapping, error], start, end uint64) ([]proc.Mapping, error) {
	var found []proc.Mapping
	next := start
	for m, err := range mappings {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		if m.End <= next {
			continue
		}
		if m.Start > next {
			break
		}
		found = append(found, m)
		if next = m.End; next >= end {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%w: range is not fully mapped", ErrPrivate)
}

// openFlags has O_NONBLOCK because the path may have been replaced by a file whose open blocks,
// such as a pipe.
const openFlags = os.O_RDWR | unix.O_NONBLOCK | unix.O_NOCTTY

// openItself opens files by their paths, or through the program's open file descriptors, with this
// process's rights.
func openItself(program proc.Identity) Opener {
	return func(a *proc.Mapping) (*os.File, error) {
		candidates := []string{}
		if strings.HasPrefix(a.Path, "/") {
			candidates = append(candidates, proc.Root(program.PID)+a.Path)
		}
		numbers, _ := proc.Numbers(program.PID)
		for _, number := range numbers {
			candidates = append(candidates, proc.File(program.PID, number))
		}
		for _, path := range candidates {
			if !isAt(path, a) {
				continue
			}
			file, err := os.OpenFile(path, openFlags, 0)
			if err != nil {
				continue
			}
			if isOf(file, a) {
				return file, nil
			}
			_ = file.Close()
		}
		return nil, errors.New("file was removed and is not open in the program")
	}
}

// OpenMapped opens files through /proc/PID/map_files, which only root may use, but with a user's
// rights. So the user gets only files that the user could open by name.
func OpenMapped(program proc.Identity, as fsuid.Rights) Opener {
	return func(a *proc.Mapping) (file *os.File, err error) {
		there, err := unix.Open(a.File(program.PID), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer unix.Close(there)
		var stat unix.Stat_t
		if err := unix.Fstat(there, &stat); err != nil {
			return nil, err
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil, errors.New("not a regular file") // opening other files may have side effects
		}
		err = as.Do(func() error {
			fd, err := unix.Open(proc.ThreadFile(there), openFlags|unix.O_CLOEXEC, 0)
			if err == nil {
				file = os.NewFile(uintptr(fd), a.Path)
			}
			return err
		})
		return file, err
	}
}

// isAt reports whether a path names the file of an area.
func isAt(path string, a *proc.Mapping) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && matches(&stat, a)
}

// isOf reports whether an open file is the file of an area.
func isOf(file *os.File, a *proc.Mapping) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(file.Fd()), &stat) == nil && matches(&stat, a)
}

func matches(stat *unix.Stat_t, a *proc.Mapping) bool {
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Ino == a.Inode && stat.Dev == a.Device
}
