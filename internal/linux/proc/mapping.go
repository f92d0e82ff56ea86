package proc

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mapping is a part of a process's address space: a line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64
	// Access is as in "rw-s".
	Access string
	Offset uint64
	// Device and Inode identify the file; both are 0 for anonymous memory. On some file systems
	// stat of the file returns other numbers.
	Device, Inode uint64
	// Path is the path of the file, with the suffix " (deleted)" if it was removed. It is a name
	// like "[heap]" for memory that the kernel or the C library has named, and empty for other
	// anonymous memory.
	Path string
}

// Shared reports whether other processes see what is written.
func (m *Mapping) Shared() bool { return strings.HasSuffix(m.Access, "s") }

// Readable reports whether the process may read the memory.
func (m *Mapping) Readable() bool { return strings.HasPrefix(m.Access, "r") }

// Writable reports whether the process may write the memory.
func (m *Mapping) Writable() bool { return strings.Contains(m.Access, "w") }

// Executable reports whether the process may execute the memory.
func (m *Mapping) Executable() bool { return strings.Contains(m.Access, "x") }

// File returns the kernel's link to the mapped file, which works even if the file was renamed or
// removed. Only root may follow it.
func (m *Mapping) File(pid int) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
}

// Mappings lists the address space of a process, in the order of addresses.
func Mappings(pid int) (found []Mapping, err error) {
	for m, err := range EachMapping(pid) {
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}

// EachMapping iterates over the address space of a process without reading all of it at once. It
// ends after an error.
func EachMapping(pid int) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			yield(Mapping{}, err)
			return
		}
		defer maps.Close()
		for m, err := range parseMappings(maps) {
			if err != nil {
				err = fmt.Errorf("maps of pid %d: %w", pid, err)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// maxLineBytes is an upper bound for a line: a path has at most 4096 bytes, each of which may be
// escaped as four.
const maxLineBytes = 64 << 10

// parseMappings yields the mapping of each line. It ends after an error.
func parseMappings(maps io.Reader) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		lines := bufio.NewScanner(maps)
		lines.Buffer(nil, maxLineBytes)
		for lines.Scan() {
			m, err := parseMapping(lines.Text())
			if !yield(m, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Mapping{}, err)
		}
	}
}

// parseMapping parses "7f01-7f02 rw-s 00001000 00:1a 1234   /path with blanks".
func parseMapping(line string) (m Mapping, err error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || len(fields[1]) != 4 {
		return m, fmt.Errorf("%q is not a line of /proc/PID/maps", line)
	}
	start, end, _ := strings.Cut(fields[0], "-")
	major, minor, _ := strings.Cut(fields[3], ":")
	var device [2]uint64
	for _, field := range []struct {
		text       string
		base, bits int
		into       *uint64
	}{
		{start, 16, 64, &m.Start},
		{end, 16, 64, &m.End},
		{fields[2], 16, 64, &m.Offset},
		{major, 16, 32, &device[0]},
		{minor, 16, 32, &device[1]},
		{fields[4], 10, 64, &m.Inode},
	} {
		if *field.into, err = strconv.ParseUint(field.text, field.base, field.bits); err != nil {
			return Mapping{}, fmt.Errorf("%q is not a line of /proc/PID/maps: %w", line, err)
		}
	}
	m.Device, m.Access = unix.Mkdev(uint32(device[0]), uint32(device[1])), fields[1]
	if len(fields) == 6 {
		m.Path = strings.TrimLeft(fields[5], " ")
	}
	// The kernel escapes only newlines. A path that contains these four characters literally is
	// misread.
	m.Path = strings.ReplaceAll(m.Path, `\012`, "\n")
	return m, nil
}
