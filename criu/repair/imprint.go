package repair

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// codeBytes is more than CRIU writes over code: a system call, and behind it the name of a file.
const codeBytes = 64

// Imprint is what must be as it was in processes that CRIU has left.
type Imprint struct {
	processes []imprint
}

// imprint is that of one process.
type imprint struct {
	proc.Identity
	// at is where CRIU puts its code, code what belongs there.
	at   uint64
	code []byte
	// blocked are each thread's blocked signals.
	blocked map[int]uint64
}

// Take remembers processes that stand still. Those that have ended already are left out.
func Take(pids []int) (*Imprint, error) {
	var all Imprint
	for _, pid := range pids {
		one, err := take(pid)
		if proc.Gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("imprint of pid %d: %w", pid, err)
		}
		if one != nil {
			all.processes = append(all.processes, *one)
		}
	}
	return &all, nil
}

func take(pid int) (*imprint, error) {
	stat, err := proc.ReadStat(pid)
	if err != nil || stat.Zombie() {
		return nil, err
	}
	one := &imprint{Identity: stat.Identity, blocked: make(map[int]uint64)}
	mappings, err := proc.Mappings(pid)
	if err != nil {
		return nil, err
	}
	// CRIU takes the first code that there is.
	if i := slices.IndexFunc(mappings, func(m proc.Mapping) bool { return m.Executable() }); i >= 0 {
		one.at, one.code = mappings[i].Start, make([]byte, codeBytes)
		if err := one.memory(os.O_RDONLY, func(memory *os.File) (int, error) {
			return memory.ReadAt(one.code, int64(one.at))
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
		one.blocked[thread] = status.Blocked
	}
	return one, nil
}

// memory does something with the process's memory.
func (p *imprint) memory(how int, do func(*os.File) (int, error)) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID), how, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = do(memory)
	return err
}

// parasite is how the kernel names the memory that CRIU's code lies in.
const parasite = "/memfd:CRIUMFD"

// Inside reports whether a thread is in CRIU's code.
func (all *Imprint) Inside() (bool, error) {
	for _, p := range all.processes {
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

func (p *imprint) inside() (bool, error) {
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
