package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mounts returns the IDs of all mounts in the namespace of a process.
func Mounts(pid int) (map[uint64]bool, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	found := map[uint64]bool{}
	for line := range strings.Lines(string(text)) {
		field, _, _ := strings.Cut(line, " ")
		id, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("mountinfo of pid %d: %q", pid, line)
		}
		found[id] = true
	}
	return found, nil
}
