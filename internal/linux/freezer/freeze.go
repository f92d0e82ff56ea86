package freezer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrNotFrozen is returned when processes could not be frozen in time, or kept creating new ones.
var ErrNotFrozen = errors.New("process tree did not freeze")

// Patience is how long thawing and moving back may take. They wait only for the kernel, never for a
// program.
const Patience = cgroup.Patience

// pollTime is how long to wait for an event of a cgroup before checking anyway.
const pollTime = 20 * time.Millisecond

// Group is the cgroup in which a tree is frozen.
type Group struct {
	// Path is its directory.
	Path   string
	parent string
	// origin is the cgroup of each process that did not come from parent; nil: all go to parent.
	origin map[int]string
}

// Freeze freezes the tree of a root in a new cgroup with that name. On failure nothing has changed.
func Freeze(ctx context.Context, root proc.Identity, name string) (*Group, error) {
	group, err := Gather(root, name)
	if err != nil {
		return nil, err
	}
	if err := group.Hold(ctx, root); err != nil {
		return nil, errors.Join(err, group.Thaw())
	}
	return group, nil
}

// FreezeInto is Freeze for a tree that goes to another cgroup: when the group is dissolved, all
// processes are in home.
func FreezeInto(ctx context.Context, root proc.Identity, home, name string) (*Group, error) {
	group := &Group{Path: filepath.Join(home, name), parent: home}
	if err := group.gather(root); err != nil {
		return nil, err
	}
	if err := group.Hold(ctx, root); err != nil {
		return nil, errors.Join(err, group.Thaw())
	}
	return group, nil
}

// Gather moves the tree of a root into a new cgroup with that name, without freezing it. Moving
// takes the kernel milliseconds; freezing a gathered tree does not need it. On failure nothing has
// changed.
func Gather(root proc.Identity, name string) (*Group, error) {
	parent, err := cgroup.Of(root.PID)
	if err != nil {
		return nil, fmt.Errorf("freeze pid %d: %w", root.PID, err)
	}
	group := &Group{Path: filepath.Join(parent, name), parent: parent, origin: map[int]string{}}
	if err := group.gather(root); err != nil {
		return nil, err
	}
	return group, nil
}

// gather makes the group's cgroup and moves the tree of a root into it.
func (g *Group) gather(root proc.Identity) error {
	if err := os.Mkdir(g.Path, 0o755); err != nil {
		return fmt.Errorf("freeze pid %d: %w", root.PID, err)
	}
	tree, err := proc.Tree(root)
	if err == nil {
		_, err = g.moveIn(tree)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("freeze pid %d: %w", root.PID, err), g.Thaw())
	}
	return nil
}

// Hold freezes a gathered tree. On failure some processes may be frozen.
func (g *Group) Hold(ctx context.Context, root proc.Identity) error {
	if err := g.hold(ctx, root); err != nil {
		return fmt.Errorf("freeze pid %d: %w", root.PID, err)
	}
	return nil
}

// hold moves processes until a frozen tree has none outside. Processes created while others were
// moved are found by the next iteration.
func (g *Group) hold(ctx context.Context, root proc.Identity) error {
	for frozen := false; ctx.Err() == nil; frozen = true {
		tree, err := proc.Tree(root)
		if err != nil {
			return err
		}
		moved, err := g.moveIn(tree)
		if err != nil {
			return err
		}
		// A tree that was listed while it was running may have more processes now.
		if moved == 0 && frozen {
			return g.moveOut(tree)
		}
		if err := cgroup.Write(g.Path, "cgroup.freeze", "1"); err != nil {
			return err
		}
		if err := g.await(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrNotFrozen, context.Cause(ctx))
}

// moveIn moves the processes of a tree that are in other cgroups.
func (g *Group) moveIn(tree []*proc.Stat) (moved int, err error) {
	for _, stat := range tree {
		if stat.Zombie() {
			continue
		}
		where, err := cgroup.Of(stat.PID)
		if proc.Gone(err) || where == g.Path {
			continue
		}
		if err != nil {
			return moved, err
		}
		if g.origin != nil && where != g.parent {
			g.origin[stat.PID] = where
		}
		moved++
		if err := cgroup.Put(g.Path, stat.PID); err != nil && !proc.Gone(err) {
			return moved, fmt.Errorf("move pid %d from %s: %w", stat.PID, where, err)
		}
	}
	return moved, nil
}

// moveOut moves processes out that no longer belong to the tree, because their parent has ended.
func (g *Group) moveOut(tree []*proc.Stat) error {
	pids, err := cgroup.Processes(g.Path)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if slices.ContainsFunc(tree, func(stat *proc.Stat) bool { return stat.PID == pid }) {
			continue
		}
		if err := g.moveBack(pid); err != nil {
			return err
		}
	}
	return nil
}

// moveBack moves a process to its original cgroup.
func (g *Group) moveBack(pid int) error {
	if origin := g.origin[pid]; origin != "" {
		if err := cgroup.Put(origin, pid); err == nil || proc.Gone(err) && exists(origin) {
			return nil
		}
		// The original cgroup was removed in the meantime.
	}
	if err := cgroup.Put(g.parent, pid); err != nil && !proc.Gone(err) {
		return fmt.Errorf("move pid %d back to %s: %w", pid, g.parent, err)
	}
	return nil
}

// exists reports whether a cgroup exists.
func exists(directory string) bool {
	_, err := os.Stat(directory)
	return err == nil
}

// await waits until all processes are frozen.
func (g *Group) await(ctx context.Context) error {
	return g.expect(ctx, func(events *os.File) (bool, error) { return cgroup.Event(events, "frozen") })
}

// expect waits until a condition on cgroup.events holds.
func (g *Group) expect(ctx context.Context, holds func(events *os.File) (bool, error)) error {
	events, err := os.Open(filepath.Join(g.Path, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		if done, err := holds(events); err != nil || done {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w%s", ErrNotFrozen, context.Cause(ctx), g.describeBlocked())
		}
		watch := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(watch, int(pollTime.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch %s: %w", events.Name(), err)
		}
	}
}

// describeBlocked names processes that wait uninterruptibly, for a device or a file system, and so
// cannot be frozen.
func (g *Group) describeBlocked() (text string) {
	pids, _ := cgroup.Processes(g.Path)
	for _, pid := range pids {
		if stat, err := proc.ReadStat(pid); err == nil && stat.State == 'D' {
			text += fmt.Sprintf("; pid %d waits uninterruptibly", pid)
		}
	}
	return text
}
