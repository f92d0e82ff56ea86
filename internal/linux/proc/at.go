package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// At is the address of the instruction at which a thread that stands still goes on.
func At(pid, thread int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/task/%d/syscall", pid, thread)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// "running", or the number of a system call and its arguments or -1, then the stack pointer and
	// the address.
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return 0, fmt.Errorf("%s: it says %q", path, text)
	}
	return strconv.ParseUint(fields[len(fields)-1], 0, 64)
}
