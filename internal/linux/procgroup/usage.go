package procgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what the processes of a group have used.
type Usage struct {
	// CPU is the time that they have computed.
	CPU time.Duration
	// MemoryBytes is what they need now: what could be written back at once does not count.
	MemoryBytes uint64
	// NoMemory means that no controller counts the memory of the group.
	NoMemory bool
}

// Usage returns what the group has used.
func (g *Group) Usage() (u Usage, err error) {
	microseconds, err := readCount(filepath.Join(g.Directory, "cpu.stat"), "usage_usec")
	if err != nil {
		return u, err
	}
	u.CPU = time.Duration(microseconds) * time.Microsecond
	directory, current, inactive := g.Directory, "memory.current", "inactive_file"
	if legacy := g.legacy["memory"]; legacy != "" {
		directory, current, inactive = legacy, "memory.usage_in_bytes", "total_inactive_file"
	}
	text, err := os.ReadFile(filepath.Join(directory, current))
	if errors.Is(err, os.ErrNotExist) {
		u.NoMemory = true
		return u, nil
	}
	if err == nil {
		u.MemoryBytes, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return u, err
	}
	cached, err := readCount(filepath.Join(directory, "memory.stat"), inactive)
	u.MemoryBytes -= min(cached, u.MemoryBytes)
	return u, err
}
