package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stat is the content of /proc/PID/stat.
type Stat struct {
	Identity
	// State is a letter, as in ps.
	State byte
	// Parent, Group and Session are pids; 0 means one that is not visible from here.
	Parent, Group, Session int
	// Terminal is the device of the controlling terminal, 0 for none.
	Terminal uint64
	// Foreground is the foreground process group of the controlling terminal.
	Foreground int
	Threads    int
	// CPU is the time that its threads have computed, and the children for which it has waited.
	CPU time.Duration
}

// Zombie reports whether the process has ended but was not reaped.
func (s *Stat) Zombie() bool { return s.State == 'Z' || s.State == 'X' }

// Gone reports whether an error means that the process has ended.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, ErrGone)
}

// ReadStat reads the state of a process.
func ReadStat(pid int) (*Stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	stat, err := parseStat(text)
	if err != nil {
		return nil, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	stat.PID = pid
	return stat, nil
}

// ThreadState returns the state of one thread: 'R', 'S', 'D' and so on.
func ThreadState(pid, thread int) (byte, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread))
	if err != nil {
		return 0, err
	}
	stat, err := parseStat(text)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/task/%d/stat: %w", pid, thread, err)
	}
	return stat.State, nil
}

// Fields of /proc/PID/stat after the name, counted from the state.
const (
	fieldParent     = 1
	fieldGroup      = 2
	fieldSession    = 3
	fieldTerminal   = 4
	fieldForeground = 5
	fieldUser       = 11 // and three more
	fieldThreads    = 17
	fieldStart      = 19
)

// tick is the unit of times in /proc/PID/stat, on every machine.
const tick = 10 * time.Millisecond

func parseStat(text []byte) (*Stat, error) {
	// The name is in parentheses and may contain parentheses itself.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return nil, errors.New("no name")
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) <= fieldStart || len(fields[0]) != 1 {
		return nil, errors.New("too few fields")
	}
	ticks, err := strconv.ParseUint(fields[fieldStart], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("start time: %w", err)
	}
	var numbers [fieldThreads + 1]int64
	for i := 1; i <= fieldThreads; i++ {
		// Some fields are unsigned 64 bits wide; none of those is used.
		numbers[i], _ = strconv.ParseInt(fields[i], 10, 64)
	}
	var cpu int64
	for _, each := range numbers[fieldUser : fieldUser+4] {
		cpu += each
	}
	return &Stat{
		Identity: Identity{StartTicks: ticks}, CPU: time.Duration(cpu) * tick,
		State: fields[0][0], Parent: int(numbers[fieldParent]), Group: int(numbers[fieldGroup]),
		Session: int(numbers[fieldSession]), Terminal: uint64(uint32(numbers[fieldTerminal])),
		Foreground: int(numbers[fieldForeground]), Threads: int(numbers[fieldThreads]),
	}, nil
}

// All lists the pids of all processes.
func All() ([]int, error) {
	entries, err := os.ReadDir("/proc") // Glob would return nothing instead of an error
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(entries))
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
