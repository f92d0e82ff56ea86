package freezer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// Thaw resumes the processes, moves them back and removes the cgroup. After a failure it may be
// called again.
func (g *Group) Thaw() error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "0"); cgroup.Removed(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	return g.remove()
}

// Resume resumes the processes and leaves them in the cgroup. Stop freezes them again.
func (g *Group) Resume() error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "0"); err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	return nil
}

// Kill kills all processes without letting them run again.
func (g *Group) Kill() error {
	if !exists(g.Path) {
		return nil
	}
	if err := g.kill(); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	err := g.expect(ctx, func(events *os.File) (bool, error) {
		populated, err := cgroup.Event(events, "populated")
		return !populated, err
	})
	if err != nil && !cgroup.Removed(err) {
		return fmt.Errorf("kill: %w", err)
	}
	return g.remove()
}

func (g *Group) kill() error {
	err := cgroup.Write(g.Path, "cgroup.kill", "1")
	if !exists(g.Path) {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A kernel before 5.14. Frozen processes cannot fork.
	pids, err := cgroup.Processes(g.Path)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pid %d: %w", pid, err)
		}
	}
	return nil
}

// remove moves all processes back and removes the directory.
func (g *Group) remove() error { return cgroup.Dissolve(g.Path, g.moveBack) }

// Frozen reports whether all processes are frozen.
func (g *Group) Frozen() bool {
	events, err := os.Open(filepath.Join(g.Path, "cgroup.events"))
	if err != nil {
		return false
	}
	defer events.Close()
	frozen, err := cgroup.Event(events, "frozen")
	return err == nil && frozen
}

// Stop freezes the processes again after CRIU or Resume has resumed them.
func (g *Group) Stop(ctx context.Context) error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "1"); err != nil {
		return fmt.Errorf("freeze again: %w", err)
	}
	return g.await(ctx)
}

// Allow lets CRIU, running as a user, freeze and thaw the group. The user still cannot move
// processes into it.
func (g *Group) Allow(uid uint32) error {
	return os.Chown(filepath.Join(g.Path, "cgroup.freeze"), int(uid), -1)
}

// Processes lists the processes in the group.
func (g *Group) Processes() ([]int, error) { return cgroup.Processes(g.Path) }
