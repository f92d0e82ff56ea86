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

// cage is the cgroup that has all that these tests start; empty where there is none. outside is the
// one around it.
var cage, outside string

func TestMain(m *testing.M) {
	leave := enterCage()
	status := m.Run()
	leave()
	os.Exit(status)
}

// enterCage moves this process into a cgroup of its own.
func enterCage() (leave func()) {
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
		cage, outside = path, mount
		return func() {
			_ = move(os.Getpid(), mount)
			for range 100 {
				if os.Remove(path) == nil {
					break
				}
				time.Sleep(10 * time.Millisecond) // what is just ending still counts
			}
			away()
		}
	}
	return away
}

// move puts a process into a cgroup, where its children begin then.
func move(pid int, group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// ownHierarchy is a cgroup hierarchy for a root directory in which none is mounted.
func ownHierarchy() (path string, away func()) {
	dir, err := os.MkdirTemp("", "phos-crash-")
	if err != nil {
		return "", func() {}
	}
	_ = os.Chmod(dir, 0o755) // users get there too
	path = filepath.Join(dir, "cgroup")
	release, err := freezer.Provide(path)
	if err != nil {
		release = func() error { return nil }
	}
	return path, func() { _ = errors.Join(release(), os.Remove(dir)) }
}

// caged are the processes in the cage and below, without zombies, by pid with what they are; and
// the cgroups below it.
func caged(t testing.TB) (processes map[int]string, groups []string) {
	t.Helper()
	processes = make(map[int]string)
	err := filepath.WalkDir(cage, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // it may just have gone
		}
		if path != cage {
			groups = append(groups, strings.TrimPrefix(path, cage+"/"))
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

// describe is the command line of a process; empty when it is gone or a zombie.
func describe(pid int) string {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(command) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.TrimRight(string(command), "\x00"), "\x00", " ")
}

// childrenOf tells of the children of a process, wherever they are: their state, and their cgroup.
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
