package mirror

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrUnreachable means that whoever asks may not see what a program has mapped, or may not open a
// file of it.
var ErrUnreachable = errors.New("what the program has mapped cannot be opened from here")

// Part is a piece of a program's memory, in whole pages, and the file that it is of. All parts of a
// range touch.
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

// Find opens the files behind a range of a program's memory. The error is ErrPrivate where there is
// no file that the program could write, or not for all of it, and ErrUnreachable where it cannot be
// known or opened.
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
			return nil, fmt.Errorf("%w: %#x is private or may not be written", ErrPrivate, a.Start)
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

// areasOf returns the mappings that a range lies in, all of it, without gaps.
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
	return nil, fmt.Errorf("%w: it is not all mapped", ErrPrivate)
}

// openFlags: a file may be another by now than the one that was looked at, and even one that blocks
// who opens it.
const openFlags = os.O_RDWR | unix.O_NONBLOCK | unix.O_NOCTTY

// openItself finds files by their paths, or among those that the program has open, with this
// process's rights.
func openItself(program proc.Identity) Opener {
	return func(a *proc.Mapping) (*os.File, error) {
		candidates := []string{}
		if strings.HasPrefix(a.Path, "/") {
			candidates = append(candidates, procPath(program, "root")+a.Path)
		}
		numbers, _ := os.ReadDir(procPath(program, "fd"))
		for _, number := range numbers {
			candidates = append(candidates, filepath.Join(procPath(program, "fd"), number.Name()))
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
		return nil, errors.New("it has no name, and is not open")
	}
}

// OpenMapped finds files by the kernel's own links, which are for root alone, and opens them with a
// user's rights: what he could not open if it had a name for him, he does not get.
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
			return nil, errors.New("it is no regular file") // others do something when they are opened
		}
		err = as.Do(func() error {
			fd, err := unix.Open(fmt.Sprintf("/proc/thread-self/fd/%d", there), openFlags|unix.O_CLOEXEC, 0)
			if err == nil {
				file = os.NewFile(uintptr(fd), a.Path)
			}
			return err
		})
		return file, err
	}
}

// isAt reports whether a path leads to the file of an area.
func isAt(path string, a *proc.Mapping) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && matches(&stat, a)
}

func isOf(file *os.File, a *proc.Mapping) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(file.Fd()), &stat) == nil && matches(&stat, a)
}

func matches(stat *unix.Stat_t, a *proc.Mapping) bool {
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Ino == a.Inode && stat.Dev == a.Device
}

func procPath(program proc.Identity, name string) string {
	return fmt.Sprintf("/proc/%d/%s", program.PID, name)
}
