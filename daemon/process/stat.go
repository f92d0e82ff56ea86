package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Fields of /proc/PID/stat, counted from the state, which stands behind the name.
const (
	statState  = 0
	statParent = 1
	statStart  = 19
)

// readStat reads the fields of a process from its state on.
func readStat(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return statFields(stat)
}

// statFields takes a stat line apart. The name may hold anything, so counting starts after its last parenthesis.
func statFields(stat []byte) ([]string, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) <= statStart {
		return nil, errors.New("stat line is too short")
	}
	return fields, nil
}

// startTicks is when a process was started, by its stat line.
func startTicks(stat []byte) (uint64, error) {
	fields, err := statFields(stat)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[statStart], 10, 64)
}

// Zombie reports whether the process has ended without its parent having asked how, and who the parent is. Until it asks,
// the pid is nobody else's.
func (id Identity) Zombie() (parent Identity, zombie bool) {
	stat, err := readStat(id.PID)
	if err != nil || stat[statState] != "Z" && stat[statState] != "X" {
		return Identity{}, false
	}
	pid, err := strconv.Atoi(stat[statParent])
	if err != nil {
		return Identity{}, true
	}
	parent, err = Of(pid)
	if err != nil {
		return Identity{PID: pid}, true
	}
	return parent, true
}

// Parent is the pid of who has started a process, or has taken it over; 0 when nobody is known.
func Parent(pid int) int {
	stat, err := readStat(pid)
	if err != nil {
		return 0
	}
	parent, err := strconv.Atoi(stat[statParent])
	if err != nil {
		return 0
	}
	return parent
}

// Descends reports whether a process is another one, or was started below it.
func Descends(pid, ancestor int) bool {
	const deepest = 64
	for range deepest {
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
		pid = Parent(pid)
	}
	return false
}
