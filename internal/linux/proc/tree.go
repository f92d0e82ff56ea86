package proc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Tree lists a process and all its descendants, parents before their children, including zombies.
// It may miss processes that start or end in the meantime: repeat it until two results agree.
func Tree(root Identity) ([]*Stat, error) {
	first, err := ReadStat(root.PID)
	if err != nil && !Gone(err) {
		return nil, err
	}
	if err != nil || first.StartTicks != root.StartTicks {
		return nil, fmt.Errorf("pid %d: %w", root.PID, ErrGone)
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

// maxReads is how often the children of a process are read if its threads change all the time.
const maxReads = 16

// Children lists the pids of a process's children, of all its threads. When a thread ends, its
// children move to another thread, which may have been read already. So Children reads all until
// two results agree.
func Children(pid int) ([]int, error) {
	var threads, children []int
	for range maxReads {
		nowThreads, nowChildren, err := readChildren(pid)
		if err != nil {
			return nil, err
		}
		if slices.Equal(threads, nowThreads) && slices.Equal(children, nowChildren) {
			break
		}
		threads, children = nowThreads, nowChildren
	}
	return children, nil
}

func readChildren(pid int) (threads, children []int, err error) {
	if threads, err = Threads(pid); err != nil {
		return nil, nil, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, thread))
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, nil, fmt.Errorf("children of pid %d: %w", pid, err)
			}
			children = append(children, child)
		}
	}
	return threads, children, nil
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

// Inside lists the processes and threads of the pid namespace of place: their ids in it, with the
// pids of their processes in this namespace. Those of nested namespaces are not included.
func Inside(place Identity) (map[int]int, error) {
	space, err := place.Namespace("pid")
	if err != nil {
		return nil, err
	}
	pids, err := All()
	if err != nil {
		return nil, err
	}
	found := map[int]int{}
	for _, pid := range pids {
		if its, err := (Identity{PID: pid}).Namespace("pid"); err != nil || its != space {
			continue
		}
		threads, err := Threads(pid)
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, thread := range threads {
			status, err := ReadStatus(thread)
			if err == nil {
				found[status.InnermostPID()] = pid
			} else if !Gone(err) {
				return nil, err
			}
		}
	}
	return found, nil
}
