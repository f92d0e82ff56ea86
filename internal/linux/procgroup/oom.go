package procgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// OOMKills returns how many processes the kernel has killed at the memory limit. It is 0 without
// such a limit.
func (g *Group) OOMKills() (uint64, error) {
	for i := range g.limits {
		if g.limits[i].controller != "memory" {
			continue
		}
		path := filepath.Join(g.Directory, "memory.events")
		if legacy := g.legacy["memory"]; legacy != "" {
			path = filepath.Join(legacy, "memory.oom_control")
		}
		return readCount(path, "oom_kill")
	}
	return 0, nil
}

// readCount reads a number from a file with a name and a number in each line.
func readCount(path, name string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return strconv.ParseUint(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no entry %q", path, name)
}
