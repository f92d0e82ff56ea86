package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/daemon/process"
)

// Tree lists a process and all that descend from it, parents before their children. Zombies are among them. What is
// born or ends meanwhile may be missed: ask again until the answers agree.
func Tree(root process.Identity) ([]*Stat, error) {
	first, err := ReadStat(root.PID)
	if err != nil || first.StartTicks != root.StartTicks {
		return nil, fmt.Errorf("pid %d: %w", root.PID, process.ErrGone)
	}
	found := []*Stat{first}
	seen := map[int]bool{root.PID: true}
	for i := 0; i < len(found); i++ {
		children, err := Children(found[i].PID)
		if err != nil && !Gone(err) {
			return nil, err
		}
		for _, pid := range children {
			stat, err := ReadStat(pid)
			if Gone(err) || seen[pid] {
				continue
			}
			if err != nil {
				return nil, err
			}
			seen[pid] = true
			found = append(found, stat)
		}
	}
	return found, nil
}

// Children lists the pids of a process's children, whichever of its threads made them.
func Children(pid int) ([]int, error) {
	threads, err := Threads(pid)
	if err != nil {
		return nil, err
	}
	var children []int
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, thread))
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("children of pid %d: %w", pid, err)
			}
			children = append(children, child)
		}
	}
	return children, nil
}

// Threads lists the thread ids of a process.
func Threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	threads := make([]int, 0, len(entries))
	for _, entry := range entries {
		if thread, err := strconv.Atoi(entry.Name()); err == nil {
			threads = append(threads, thread)
		}
	}
	return threads, nil
}
