package mirror

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// area is a line of /proc/PID/maps.
type area struct {
	start, end uint64
	// shared: stores go to the file; writable: the program may store.
	shared, readable, writable bool
	offset                     uint64
	device, inode              uint64
	path                       string
}

// parseArea reads a line: "7f01-7f02 rw-s 00001000 00:1a 1234   /path with blanks".
func parseArea(line string) (a area, err error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 {
		return a, fmt.Errorf("%q is no line of a process's mappings", line)
	}
	start, end, _ := strings.Cut(fields[0], "-")
	major, minor, _ := strings.Cut(fields[3], ":")
	var numbers [5]uint64
	for i, text := range []string{start, end, fields[2], major, minor} {
		if numbers[i], err = strconv.ParseUint(text, 16, 64); err != nil {
			return a, fmt.Errorf("%q is no line of a process's mappings: %w", line, err)
		}
	}
	if a.inode, err = strconv.ParseUint(fields[4], 10, 64); err != nil || len(fields[1]) != 4 || numbers[3] > 1<<31 || numbers[4] > 1<<31 {
		return a, fmt.Errorf("%q is no line of a process's mappings", line)
	}
	a.start, a.end, a.offset = numbers[0], numbers[1], numbers[2]
	a.device = unix.Mkdev(uint32(numbers[3]), uint32(numbers[4]))
	a.readable, a.writable, a.shared = fields[1][0] == 'r', fields[1][1] == 'w', fields[1][3] == 's'
	if len(fields) == 6 {
		a.path = strings.TrimLeft(fields[5], " ")
	}
	return a, nil
}

// areasOf returns the areas that a range lies in, all of it, without gaps.
func areasOf(maps io.Reader, start, end uint64) ([]area, error) {
	var found []area
	lines := bufio.NewScanner(maps)
	lines.Buffer(nil, 1<<20)
	for next := start; lines.Scan(); {
		a, err := parseArea(lines.Text())
		if err != nil {
			return nil, err
		}
		if a.end <= next {
			continue
		}
		if a.start > next {
			break
		}
		found = append(found, a)
		if next = a.end; next >= end {
			return found, nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: it is not all mapped", ErrPrivate)
}
