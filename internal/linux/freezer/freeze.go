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

// ErrRestless means that processes did not come to a stand, or never stopped making new ones.
var ErrRestless = errors.New("the processes do not come to a stand")

// Patience is how long going back may take: thawing and moving never wait for a program, only for
// the kernel.
const Patience = cgroup.Patience

// look is how long to wait for news of a cgroup before looking anyway.
const look = 20 * time.Millisecond

// Group is the cgroup in which a tree is frozen.
type Group struct {
	// Path is its directory.
	Path   string
	parent string
	// origin says where processes were that did not come from parent.
	origin map[int]string
}

// Freeze makes the tree of a root stand still in a new cgroup of that name. When it fails, nothing
// has changed.
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

// Gather moves the tree of a root into a new cgroup of that name, where it runs on. A move takes
// the kernel milliseconds; a tree that was gathered is frozen without any. When it fails, nothing
// has changed.
func Gather(root proc.Identity, name string) (*Group, error) {
	parent, err := cgroup.Of(root.PID)
	if err != nil {
		return nil, fmt.Errorf("freeze pid %d: %w", root.PID, err)
	}
	group := &Group{Path: filepath.Join(parent, name), parent: parent, origin: map[int]string{}}
	if err := os.Mkdir(group.Path, 0o755); err != nil {
		return nil, fmt.Errorf("freeze pid %d: %w", root.PID, err)
	}
	tree, err := proc.Tree(root)
	if err == nil {
		_, err = group.take(tree)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("freeze pid %d: %w", root.PID, err), group.Thaw())
	}
	return group, nil
}

// Hold makes the tree of a root, which was gathered, stand still. When it fails, some of it may.
func (g *Group) Hold(ctx context.Context, root proc.Identity) error {
	if err := g.hold(ctx, root); err != nil {
		return fmt.Errorf("freeze pid %d: %w", root.PID, err)
	}
	return nil
}

// hold moves processes until a frozen tree has none outside: what was born while others were moved
// is found then.
func (g *Group) hold(ctx context.Context, root proc.Identity) error {
	for frozen := false; ctx.Err() == nil; frozen = true {
		tree, err := proc.Tree(root)
		if err != nil {
			return err
		}
		moved, err := g.take(tree)
		if err != nil {
			return err
		}
		// A tree that was listed while it ran may have more processes by now.
		if moved == 0 && frozen {
			return g.release(tree)
		}
		if err := cgroup.Write(g.Path, "cgroup.freeze", "1"); err != nil {
			return err
		}
		if err := g.await(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrRestless, context.Cause(ctx))
}

// take moves those processes of a tree that are elsewhere.
func (g *Group) take(tree []*proc.Stat) (moved int, err error) {
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
		if where != g.parent {
			g.origin[stat.PID] = where
		}
		moved++
		if err := cgroup.Put(g.Path, stat.PID); err != nil && !proc.Gone(err) {
			return moved, fmt.Errorf("move pid %d from %s: %w", stat.PID, where, err)
		}
	}
	return moved, nil
}

// release puts out those that are no longer of the tree: a process whose parent ended meanwhile.
func (g *Group) release(tree []*proc.Stat) error {
	pids, err := cgroup.Processes(g.Path)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if slices.ContainsFunc(tree, func(stat *proc.Stat) bool { return stat.PID == pid }) {
			continue
		}
		if err := g.back(pid); err != nil {
			return err
		}
	}
	return nil
}

// back moves a process where it was.
func (g *Group) back(pid int) error {
	if origin := g.origin[pid]; origin != "" {
		if err := cgroup.Put(origin, pid); err == nil || proc.Gone(err) && live(origin) {
			return nil
		}
		// Its cgroup was removed while it was away.
	}
	if err := cgroup.Put(g.parent, pid); err != nil && !proc.Gone(err) {
		return fmt.Errorf("move pid %d back to %s: %w", pid, g.parent, err)
	}
	return nil
}

func live(directory string) bool {
	_, err := os.Stat(directory)
	return err == nil
}

// await waits until all stand still.
func (g *Group) await(ctx context.Context) error {
	return g.expect(ctx, func(events *os.File) (bool, error) { return cgroup.Event(events, "frozen") })
}

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
			return fmt.Errorf("%w: %w%s", ErrRestless, context.Cause(ctx), g.blame())
		}
		watch := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(watch, int(look.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch %s: %w", events.Name(), err)
		}
	}
}

// blame names processes that wait for a device or a file system, and cannot be stopped there.
func (g *Group) blame() (text string) {
	pids, _ := cgroup.Processes(g.Path)
	for _, pid := range pids {
		if stat, err := proc.ReadStat(pid); err == nil && stat.State == 'D' {
			text += fmt.Sprintf("; pid %d waits uninterruptibly", pid)
		}
	}
	return text
}
