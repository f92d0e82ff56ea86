package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// controllers are those of which a host has cgroups of its own.
var controllers = []string{"cpu", "cpuacct", "memory", "pids"}

// groups are the cgroups of a host: its directories in the machine's hierarchies.
type groups struct {
	// unified is that of version 2, old are those of controllers that have version 1.
	unified string
	old     []string
}

// first is the group, below a host's, of its first process and of commands: a group with processes
// cannot have others with controllers below it.
const first = "init"

// makeGroups makes the cgroups of a host.
func (f *fleet) makeGroups(host string) (groups, error) {
	parents, err := hierarchies()
	if err != nil {
		return groups{}, err
	}
	var made groups
	for i, parent := range parents {
		group := filepath.Join(parent, f.name, host)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return made, err
		}
		if i > 0 {
			made.old = append(made.old, group)
			continue
		}
		made.unified = group
		if err := os.MkdirAll(filepath.Join(group, first), 0o755); err != nil {
			return made, err
		}
		enableControllers(filepath.Dir(group))
	}
	return made, nil
}

// enableControllers lets the groups below one have the controllers that it has. On machines whose
// controllers have version 1 it has none.
func enableControllers(group string) {
	available, _ := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	for _, each := range strings.Fields(string(available)) {
		if slices.Contains(controllers, each) {
			_ = cgroup.Write(group, "cgroup.subtree_control", "+"+each)
		}
	}
}

// hierarchies returns the directories in which cgroups of fleets are made: the top of version 2,
// where a group may have controllers, then the cgroups of this process in hierarchies of version 1.
func hierarchies() (directories []string, err error) {
	top, err := cgroup.Top()
	if err != nil {
		return nil, err
	}
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, err
	}
	directories = []string{top}
	for _, each := range mounts {
		if each.Kind != "cgroup" {
			continue
		}
		if directory, found := ownGroup(each, string(own)); found && !slices.Contains(directories, directory) {
			directories = append(directories, directory)
		}
	}
	return directories, nil
}

// ownGroup returns the directory of a process's cgroup in a mounted hierarchy, by the lines of
// /proc/PID/cgroup, if hosts have cgroups there.
func ownGroup(mount proc.Mount, lines string) (directory string, found bool) {
	for line := range strings.Lines(lines) { // 4:cpu,cpuacct:/path
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 || !slices.Contains(strings.Split(mount.Options, ","), strings.Split(fields[1], ",")[0]) {
			continue
		}
		below, err := filepath.Rel(mount.Root, fields[2])
		used := slices.ContainsFunc(controllers, func(name string) bool {
			return slices.Contains(strings.Split(fields[1], ","), name)
		})
		return filepath.Join(mount.Point, below), used && err == nil && filepath.IsLocal(below)
	}
	return "", false
}

// readMounts returns the mounts that this process sees.
func readMounts() ([]proc.Mount, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	return proc.ParseMounts(string(text))
}

// remove removes a host's cgroups, with those that its processes have made. The processes have been
// killed.
func (g groups) remove() error {
	var failed error
	for _, each := range append(slices.Clone(g.old), g.unified) {
		if each != "" {
			failed = errors.Join(failed, removeGroup(each))
		}
	}
	return failed
}

// removeGroups removes the cgroups of a fleet whose hosts have been killed.
func (f *fleet) removeGroups() (failed error) {
	parents, err := hierarchies()
	for _, parent := range parents {
		err = errors.Join(err, removeGroup(filepath.Join(parent, f.name)))
	}
	return err
}

// removeGroup removes a cgroup and those below it. It waits for processes that are exiting.
func removeGroup(directory string) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		err := removeGroupNow(directory)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Since(start) > cgroup.Patience {
			return fmt.Errorf("remove the cgroup %s: %w", directory, err)
		}
	}
}

// removeGroupNow removes the groups below first.
func removeGroupNow(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, each := range entries {
		if !each.IsDir() {
			continue
		}
		if err := removeGroupNow(filepath.Join(directory, each.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return unix.Rmdir(directory)
}

// processesBelow returns the processes in a cgroup and in those below it; none if it was removed.
func processesBelow(directory string) (pids []int, err error) {
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			return nil
		}
		var found []int
		if err == nil {
			found, err = cgroup.Processes(path)
		}
		pids = append(pids, found...)
		if cgroup.Removed(err) {
			return nil
		}
		return err
	})
	return pids, err
}
