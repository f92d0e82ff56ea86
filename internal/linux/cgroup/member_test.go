package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDissolve: a process that ends before it can be moved is not an error.
func TestDissolve(t *testing.T) {
	here, err := Of(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	group, err := os.MkdirTemp(here, "dissolve-test.")
	if err != nil {
		t.Skip("needs cgroups:", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := Put(group, child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	err = Dissolve(group, func(pid int) error {
		err := errors.Join(child.Process.Kill(), child.Wait())
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			t.Error(err)
		}
		return Put(filepath.Dir(group), pid)
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(group); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the group: %v", err)
	}
}
