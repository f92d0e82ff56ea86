package proc

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Status is the content of /proc/PID/status.
type Status struct {
	// UIDs and GIDs are the real, effective, saved and file system ids.
	UIDs, GIDs [4]uint32
	Groups     []uint32
	// Tracer is the thread id of a debugger.
	Tracer int
	// Process is the pid of a thread's process.
	Process int
	// PIDs are the process's pids, from this namespace to its own.
	PIDs []int
	// Session is the session id in the process's own namespace; 0 if the leader is outside of it.
	Session int
	// Permitted, Effective, Inheritable and Ambient are sets of capabilities.
	Permitted, Effective, Inheritable, Ambient uint64
	// Pending are pending signals of the main thread, SharedPending those of the whole process.
	Pending, SharedPending uint64
	// Blocked is the signal mask of the main thread.
	Blocked       uint64
	Seccomp       int
	ResidentBytes uint64
}

// InnermostPID returns the pid in the process's own namespace.
func (s *Status) InnermostPID() int {
	if len(s.PIDs) == 0 {
		return 0
	}
	return s.PIDs[len(s.PIDs)-1]
}

// ReadStatus reads the status of a process.
func ReadStatus(pid int) (*Status, error) { return readStatus(fmt.Sprintf("/proc/%d/status", pid)) }

// ReadThreadStatus reads the status of one thread of a process.
func ReadThreadStatus(pid, thread int) (*Status, error) {
	return readStatus(fmt.Sprintf("/proc/%d/task/%d/status", pid, thread))
}

func readStatus(path string) (*Status, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	status, err := parseStatus(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return status, nil
}

// parseStatus parses the lines of Status's fields. User and group ids are required: a missing one
// must never become 0, which is root.
func parseStatus(text string) (*Status, error) {
	status := new(Status)
	required := map[string]int{"Uid": len(status.UIDs), "Gid": len(status.GIDs), "Groups": 0}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(value)
		if count, found := required[name]; found {
			if len(parseIDs(fields)) != len(fields) || len(fields) < count {
				return nil, fmt.Errorf("line %q is malformed", line)
			}
			delete(required, name)
		}
		if len(fields) > 0 {
			status.field(name, fields)
		}
	}
	if len(required) > 0 {
		return nil, fmt.Errorf("lines are missing: %v", slices.Sorted(maps.Keys(required)))
	}
	return status, nil
}

// field parses the values of one line.
func (s *Status) field(name string, values []string) {
	switch name {
	case "Uid":
		copy(s.UIDs[:], parseIDs(values))
	case "Gid":
		copy(s.GIDs[:], parseIDs(values))
	case "Groups":
		s.Groups = parseIDs(values)
	case "TracerPid":
		s.Tracer, _ = strconv.Atoi(values[0])
	case "Tgid":
		s.Process, _ = strconv.Atoi(values[0])
	case "NSpid":
		for _, id := range parseIDs(values) {
			s.PIDs = append(s.PIDs, int(id))
		}
	case "NSsid":
		sessions := append([]uint32{0}, parseIDs(values)...)
		s.Session = int(sessions[len(sessions)-1])
	case "Seccomp":
		s.Seccomp, _ = strconv.Atoi(values[0])
	case "VmRSS":
		kibibytes, _ := strconv.ParseUint(values[0], 10, 54)
		s.ResidentBytes = kibibytes << 10
	default:
		if set := s.set(name); set != nil {
			*set, _ = strconv.ParseUint(values[0], 16, 64)
		}
	}
}

// set returns the field for a hexadecimal set.
func (s *Status) set(name string) *uint64 {
	switch name {
	case "CapPrm":
		return &s.Permitted
	case "CapEff":
		return &s.Effective
	case "CapInh":
		return &s.Inheritable
	case "CapAmb":
		return &s.Ambient
	case "SigPnd":
		return &s.Pending
	case "ShdPnd":
		return &s.SharedPending
	case "SigBlk":
		return &s.Blocked
	}
	return nil
}

// parseIDs returns the decimal ids. It skips malformed values, so callers may compare the counts.
func parseIDs(values []string) []uint32 {
	found := make([]uint32, 0, len(values))
	for _, value := range values {
		if id, err := strconv.ParseUint(value, 10, 32); err == nil {
			found = append(found, uint32(id))
		}
	}
	return found
}
