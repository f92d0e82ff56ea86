package freezer

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestCgroupRemoved: systemd removes the cgroups of a unit as soon as they are empty, including
// ours.
func TestCgroupRemoved(t *testing.T) {
	for range 50 {
		sleeper := exec.Command("sleep", "1000")
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
		defer sleeper.Process.Kill()
		id, err := proc.Of(sleeper.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		group, err := Freeze(t.Context(), id, cgroup.Name("test", id))
		if errors.Is(err, cgroup.ErrNone) || errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		away := make(chan struct{})
		go func() {
			defer close(away)
			for errors.Is(unix.Rmdir(group.Path), unix.EBUSY) {
			}
		}()
		if err := group.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = sleeper.Wait()
		<-away
		if err := errors.Join(group.Thaw(), group.Kill()); err != nil {
			t.Error("once more:", err)
		}
	}
}
