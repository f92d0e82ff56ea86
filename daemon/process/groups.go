package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Groups lists the supplementary groups of the process.
func (id Identity) Groups() ([]uint32, error) { return id.numbers("Groups") }

// UID is the user that the process belongs to, by what it may do and not by what its directory in /proc says.
func (id Identity) UID() (uint32, error) {
	all, err := id.numbers("Uid")
	if err != nil {
		return 0, err
	}
	if len(all) < 1 {
		return 0, fmt.Errorf("status of pid %d: it has no user", id.PID)
	}
	return all[0], nil // the real one, which may send signals to whom it started
}

// ActsOnlyAs reports whether a user is all that the process can be: its real, effective and saved user. One that has become a program with
// raised rights, by exec, is not so.
func (id Identity) ActsOnlyAs(uid uint32) (bool, error) {
	all, err := id.numbers("Uid")
	if err != nil {
		return false, err
	}
	// The fourth is the user for files alone, which can be made another one only among these three or by privileges.
	return len(all) == 4 && !slices.ContainsFunc(all[:3], func(other uint32) bool { return other != uid }), nil
}

// numbers reads a line of the process's status.
func (id Identity) numbers(name string) ([]uint32, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id.PID))
	if err != nil {
		return nil, fmt.Errorf("status of pid %d: %w", id.PID, err)
	}
	_, rest, found := strings.Cut(string(status), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	if !found {
		return nil, fmt.Errorf("status of pid %d: it has no line %s", id.PID, name)
	}
	var all []uint32
	for field := range strings.FieldsSeq(line) {
		number, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("status of pid %d: %w", id.PID, err)
		}
		all = append(all, uint32(number))
	}
	return all, nil
}
