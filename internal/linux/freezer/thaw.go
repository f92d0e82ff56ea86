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

// Thaw lets the processes go on, moves them back and removes the cgroup. Called again, it does what
// is left.
func (g *Group) Thaw() error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "0"); cgroup.Removed(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	return g.remove()
}

// Loosen lets the processes go on where they are.
func (g *Group) Loosen() error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "0"); err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	return nil
}

// Kill ends all processes where they are, without their running once more.
func (g *Group) Kill() error {
	if !live(g.Path) {
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
	if !live(g.Path) {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A kernel before 5.14. What is frozen makes no new processes.
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

// remove moves all out and removes the directory.
func (g *Group) remove() error { return cgroup.Dissolve(g.Path, g.back) }

// Frozen reports whether all stand still.
func (g *Group) Frozen() bool {
	events, err := os.Open(filepath.Join(g.Path, "cgroup.events"))
	if err != nil {
		return false
	}
	defer events.Close()
	frozen, err := cgroup.Event(events, "frozen")
	return err == nil && frozen
}

// Start lets the processes go on where they are, until the next Stop.
func (g *Group) Start() error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "0"); err != nil {
		return fmt.Errorf("let go on: %w", err)
	}
	return nil
}

// Stop makes what has been let go on, by CRIU or by whoever may, stand still again.
func (g *Group) Stop(ctx context.Context) error {
	if err := cgroup.Write(g.Path, "cgroup.freeze", "1"); err != nil {
		return fmt.Errorf("freeze again: %w", err)
	}
	return g.await(ctx)
}

// Allow lets a user's CRIU freeze and thaw the group. He can put no process into it.
func (g *Group) Allow(uid uint32) error {
	return os.Chown(filepath.Join(g.Path, "cgroup.freeze"), int(uid), -1)
}

// Processes lists those that are in the group.
func (g *Group) Processes() ([]int, error) { return cgroup.Processes(g.Path) }
