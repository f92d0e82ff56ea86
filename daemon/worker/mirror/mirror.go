package mirror

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/process"
)

// ErrPrivate means that memory is not, or not all, that of files which could be mapped here as well.
var ErrPrivate = errors.New("the memory is not shared with a file that can be opened")

const pageBytes = 4096

// Mirror is a part of a program's memory, mapped here too.
type Mirror struct {
	pages  []byte
	memory []byte
	// files stay open: a driver that is itself a phosd finds them there, where their names are gone.
	files []*os.File
}

// Memory is exactly the range that was asked for. It lies at the program's address where that was free here.
func (m *Mirror) Memory() []byte { return m.memory }

// Close unmaps it.
func (m *Mirror) Close() error {
	errs := []error{unmap(m.pages)}
	for _, file := range m.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// Open maps the files behind a range of a program's memory. The error is ErrPrivate where there is none, or not for all.
func Open(program process.Identity, address, bytes uint64) (*Mirror, error) {
	start, end := address&^(pageBytes-1), (address+bytes+pageBytes-1)&^(pageBytes-1)
	if bytes == 0 || address+bytes < address || end < start {
		return nil, fmt.Errorf("%w: it is no range", ErrPrivate)
	}
	areas, err := areasOf(process.EachMapping(program.PID), start, end)
	if err != nil {
		return nil, err
	}
	for i := range areas {
		if a := &areas[i]; !a.Shared() || !a.Readable() || !a.Writable() || a.Inode == 0 {
			return nil, fmt.Errorf("%w: %#x is private or may not be written", ErrPrivate, a.Start)
		}
	}
	pages, err := reserve(start, end-start)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", end-start, err)
	}
	m := &Mirror{pages: pages, memory: pages[address-start : address-start+bytes : address-start+bytes]}
	for i := range areas {
		if err := m.place(program, &areas[i], start); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, program.Check()
}

// place puts the pages of an area where they belong.
func (m *Mirror) place(program process.Identity, a *process.Mapping, start uint64) error {
	file, err := open(program, a)
	if err != nil {
		return err
	}
	m.files = append(m.files, file)
	first, end := max(a.Start, start), min(a.End, start+uint64(len(m.pages)))
	offset := a.Offset + first - a.Start
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if size := uint64(info.Size()); offset+end-first > (size+pageBytes-1)&^(pageBytes-1) {
		return fmt.Errorf("%w: %s is shorter than what is mapped of it", ErrPrivate, a.Path)
	}
	return over(m.pages[first-start:end-start], file, int64(offset))
}

// open finds the file of an area: by its path, or among the files that the program has open.
func open(program process.Identity, a *process.Mapping) (*os.File, error) {
	candidates := []string{}
	if strings.HasPrefix(a.Path, "/") {
		candidates = append(candidates, proc(program, "root")+a.Path)
	}
	numbers, _ := os.ReadDir(proc(program, "fd"))
	for _, number := range numbers {
		candidates = append(candidates, filepath.Join(proc(program, "fd"), number.Name()))
	}
	for _, path := range candidates {
		if !isAt(path, a) {
			continue
		}
		// It may be another by now, and even one that blocks who opens it.
		file, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			continue
		}
		if isOf(file, a) {
			return file, nil
		}
		_ = file.Close()
	}
	return nil, fmt.Errorf("%w: %s", ErrPrivate, a.Path)
}

// isAt reports whether a path leads to the file of an area.
func isAt(path string, a *process.Mapping) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && matches(&stat, a)
}

func isOf(file *os.File, a *process.Mapping) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(file.Fd()), &stat) == nil && matches(&stat, a)
}

func matches(stat *unix.Stat_t, a *process.Mapping) bool {
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Ino == a.Inode && stat.Dev == a.Device
}

func proc(program process.Identity, name string) string {
	return fmt.Sprintf("/proc/%d/%s", program.PID, name)
}
