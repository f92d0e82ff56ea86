package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mapping is a part of a process's address space.
type Mapping struct {
	Start, End uint64
	// Access is as in "rw-s".
	Access string
	Offset uint64
	Device string
	Inode  uint64
	// Path is empty for anonymous memory.
	Path string
}

// Shared says that what is written is seen by others.
func (m *Mapping) Shared() bool { return strings.HasSuffix(m.Access, "s") }

// Writable says that the process may write there.
func (m *Mapping) Writable() bool { return strings.Contains(m.Access, "w") }

// Mappings lists the address space of a process.
func Mappings(pid int) ([]Mapping, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var found []Mapping
	for line := range strings.Lines(string(text)) {
		mapping, ok := parseMapping(strings.TrimSuffix(line, "\n"))
		if !ok {
			return nil, fmt.Errorf("maps of pid %d: %q", pid, line)
		}
		found = append(found, mapping)
	}
	return found, nil
}

// parseMapping reads "start-end access offset device inode    path"; the path may have blanks in it.
func parseMapping(line string) (m Mapping, ok bool) {
	var fields [5]string
	rest := line
	for i := range fields {
		rest = strings.TrimLeft(rest, " ")
		fields[i], rest, _ = strings.Cut(rest, " ")
	}
	start, end, ok := strings.Cut(fields[0], "-")
	if !ok || fields[4] == "" {
		return m, false
	}
	numbers := [4]uint64{}
	for i, field := range []struct {
		text string
		base int
	}{{start, 16}, {end, 16}, {fields[2], 16}, {fields[4], 10}} {
		value, err := strconv.ParseUint(field.text, field.base, 64)
		if err != nil {
			return m, false
		}
		numbers[i] = value
	}
	return Mapping{
		Start: numbers[0], End: numbers[1], Access: fields[1], Offset: numbers[2], Device: fields[3], Inode: numbers[3],
		Path: strings.TrimLeft(rest, " "),
	}, true
}
