package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPaths: the paths lead to what they name.
func TestPaths(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, pid := int(file.Fd()), os.Getpid()
	for _, path := range []string{OwnFile(fd), ThreadFile(fd), File(pid, fd), Root(pid) + name} {
		if its, err := os.Stat(path); err != nil {
			t.Error(err)
		} else if here, err := file.Stat(); err != nil || !os.SameFile(its, here) {
			t.Errorf("%s is another file: %v", path, err)
		}
	}
	if path, err := PathOf(fd); err != nil || path != name {
		t.Errorf("path of an open file: %s, %v", path, err)
	}
	if numbers, err := Numbers(pid); err != nil || !slices.Contains(numbers, fd) {
		t.Errorf("open files: %v, %v", numbers, err)
	}
	if id, err := BootID(); err != nil || len(id) != 36 || strings.TrimSpace(id) != id {
		t.Errorf("boot id %q, %v", id, err)
	}
}

// TestLockHolder: the holder of a flock is found, and of no other lock.
func TestLockHolder(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if pid := LockHolder(file); pid != 0 {
		t.Errorf("pid %d has a lock that does not exist", pid)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if pid := LockHolder(file); pid != os.Getpid() {
		t.Skip("this file system's locks are not in /proc/locks, pid ", pid)
	}
	const list = "1: POSIX  ADVISORY  WRITE 7 08:01:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 08:01:12 0 EOF\n3: FLOCK\n"
	for name, want := range map[string]int{"08:01:12": 8, "08:01:13": 0} {
		if got := lockHolder(strings.NewReader(list), name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}
