package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// testCgroup holds all processes that these tests start; empty if it could not be created. outside
// is its parent cgroup.
var testCgroup, outside string

func TestMain(m *testing.M) {
	leave := enterTestCgroup()
	status := m.Run()
	leave()
	os.Exit(status)
}

// enterTestCgroup moves this process into a new cgroup.
func enterTestCgroup() (leave func()) {
	own, away := ownHierarchy()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", own} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil || os.Geteuid() != 0 {
			continue
		}
		path := filepath.Join(mount, fmt.Sprintf("phos-crash-%d", os.Getpid()))
		if os.Mkdir(path, 0o755) != nil {
			continue
		}
		if move(os.Getpid(), path) != nil {
			_ = os.Remove(path)
			continue
		}
		testCgroup, outside = path, mount
		return func() {
			_ = move(os.Getpid(), mount)
			for range 100 {
				if os.Remove(path) == nil {
					break
				}
				time.Sleep(10 * time.Millisecond) // an exiting process is still counted
			}
			away()
		}
	}
	return away
}

// move puts a process into a cgroup; its children start there too.
func move(pid int, group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// ownHierarchy mounts a cgroup hierarchy below a temporary root directory.
func ownHierarchy() (path string, away func()) {
	dir, err := os.MkdirTemp("", "phos-crash-")
	if err != nil {
		return "", func() {}
	}
	_ = os.Chmod(dir, 0o755) // other users need access too
	path = filepath.Join(dir, "cgroup")
	release, err := freezer.MountCgroups(path)
	if err != nil {
		release = func() error { return nil }
	}
	return path, func() { _ = errors.Join(release(), os.Remove(dir)) }
}

// inTestCgroup returns the processes in the test's cgroup and below, without zombies: their command
// lines by pid. It also returns the cgroups below.
func inTestCgroup(t testing.TB) (processes map[int]string, groups []string) {
	t.Helper()
	processes = make(map[int]string)
	err := filepath.WalkDir(testCgroup, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // the directory may just have been removed
		}
		if path != testCgroup {
			groups = append(groups, strings.TrimPrefix(path, testCgroup+"/"))
		}
		pids, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(pids)) {
			pid, _ := strconv.Atoi(field)
			if what := describe(pid); what != "" {
				processes[pid] = what
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return processes, groups
}

// describe returns the command line of a process; empty if it has exited or is a zombie.
func describe(pid int) string {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(command) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.TrimRight(string(command), "\x00"), "\x00", " ")
}

// childrenOf lists the children of a process with their state and cgroup.
func childrenOf(pid int) string {
	var all []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		pids, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(pids)) {
			stat, _ := os.ReadFile("/proc/" + child + "/stat")
			group, _ := os.ReadFile("/proc/" + child + "/cgroup")
			all = append(all, strings.Join(strings.Fields(string(stat)+" "+string(group)), " "))
		}
	}
	return strings.Join(all, "; ")
}
