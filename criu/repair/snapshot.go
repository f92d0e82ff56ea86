package repair

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// codeBytes is an upper bound for what CRIU overwrites: a system call followed by the name of a
// file.
const codeBytes = 64

// Snapshot is the state of processes that CRIU must not change.
type Snapshot struct {
	processes []processSnapshot
}

// processSnapshot is the state of one process.
type processSnapshot struct {
	proc.Identity
	// Start is the address where CRIU puts its code, Code the original bytes there.
	Start uint64 `json:"start"`
	Code  []byte `json:"code"`
	// Blocked is the signal mask of each thread.
	Blocked map[int]uint64 `json:"blocked"`
}

// Take captures frozen processes. Those that have ended are left out.
func Take(pids []int) (*Snapshot, error) {
	var all Snapshot
	for _, pid := range pids {
		one, err := take(pid)
		if proc.Gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("snapshot of pid %d: %w", pid, err)
		}
		if one != nil {
			all.processes = append(all.processes, *one)
		}
	}
	return &all, nil
}

// take captures one process; nil for a zombie.
func take(pid int) (*processSnapshot, error) {
	stat, err := proc.ReadStat(pid)
	if err != nil || stat.Zombie() {
		return nil, err
	}
	one := &processSnapshot{Identity: stat.Identity, Blocked: make(map[int]uint64)}
	mappings, err := proc.Mappings(pid)
	if err != nil {
		return nil, err
	}
	// CRIU uses the first executable mapping.
	if i := slices.IndexFunc(mappings, func(m proc.Mapping) bool { return m.Executable() }); i >= 0 {
		one.Start, one.Code = mappings[i].Start, make([]byte, codeBytes)
		if err := one.withMemory(os.O_RDONLY, func(memory *os.File) (int, error) {
			return memory.ReadAt(one.Code, int64(one.Start))
		}); err != nil {
			return nil, err
		}
	}
	threads, err := proc.Threads(pid)
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		status, err := proc.ReadThreadStatus(pid, thread)
		if err != nil {
			return nil, err
		}
		one.Blocked[thread] = status.Blocked
	}
	return one, nil
}

// withMemory opens the process's memory for do.
func (p *processSnapshot) withMemory(how int, do func(*os.File) (int, error)) error {
	memory, err := proc.OpenMemory(p.PID, how)
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = do(memory)
	return err
}

// parasite is the kernel's name of the memory with CRIU's code.
const parasite = "/memfd:CRIUMFD"

// Inside reports whether a thread executes CRIU's code.
func (s *Snapshot) Inside() (bool, error) {
	for _, p := range s.processes {
		inside, err := p.inside()
		if err != nil && !proc.Gone(err) {
			return false, fmt.Errorf("pid %d: %w", p.PID, err)
		}
		if inside {
			return true, nil
		}
	}
	return false, nil
}

// inside reports whether a thread of the process is in CRIU's code. It is false after an exit.
func (p *processSnapshot) inside() (bool, error) {
	if p.Gone() {
		return false, nil
	}
	mappings, err := proc.Mappings(p.PID)
	if err != nil {
		return false, err
	}
	mappings = slices.DeleteFunc(mappings, func(m proc.Mapping) bool { return !strings.HasPrefix(m.Path, parasite) })
	if len(mappings) == 0 {
		return false, nil
	}
	threads, err := proc.Threads(p.PID)
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		at, err := proc.At(p.PID, thread)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(mappings, func(m proc.Mapping) bool { return m.Start <= at && at < m.End }) {
			return true, nil
		}
	}
	return false, nil
}
