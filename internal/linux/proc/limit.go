package proc

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// Limits of a process, by their names in /proc/PID/limits.
const (
	OpenFiles    = "Max open files"
	AddressSpace = "Max address space"
)

// Limit returns a limit that is in effect for a process (the soft one); math.MaxUint64 if there is
// none. Unlike prlimit it needs no capability.
func Limit(pid int, name string) (uint64, error) {
	path := Path(pid, "limits")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		if fields[0] == "unlimited" {
			return math.MaxUint64, nil
		}
		return strconv.ParseUint(fields[0], 10, 64)
	}
	return 0, fmt.Errorf("%s: no limit is called %q", path, name)
}
