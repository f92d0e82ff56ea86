package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Zombie reports whether the process has ended without its parent having asked how, and who the parent is. Until it asks,
// the pid is nobody else's.
func (id Identity) Zombie() (parent Identity, zombie bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
	if err != nil {
		return Identity{}, false
	}
	// State and parent stand behind the name, which may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 || fields[0] != "Z" && fields[0] != "X" {
		return Identity{}, false
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		return Identity{}, true
	}
	parent, err = Of(pid)
	if err != nil {
		return Identity{PID: pid}, true
	}
	return parent, true
}
