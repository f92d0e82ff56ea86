package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Groups lists the supplementary groups of the process.
func (id Identity) Groups() ([]uint32, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id.PID))
	if err != nil {
		return nil, fmt.Errorf("groups of pid %d: %w", id.PID, err)
	}
	_, rest, found := strings.Cut(string(status), "\nGroups:")
	line, _, _ := strings.Cut(rest, "\n")
	if !found {
		return nil, fmt.Errorf("groups of pid %d: status has no such line", id.PID)
	}
	var groups []uint32
	for field := range strings.FieldsSeq(line) {
		group, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of pid %d: %w", id.PID, err)
		}
		groups = append(groups, uint32(group))
	}
	return groups, nil
}
