package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// At returns the address at which a stopped thread will continue.
func At(pid, thread int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/task/%d/syscall", pid, thread)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// "running", or the number and arguments of a system call, or -1; then the stack pointer and
	// the address.
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return 0, fmt.Errorf("%s: unexpected content %q", path, text)
	}
	return strconv.ParseUint(fields[len(fields)-1], 0, 64)
}
