package procgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// pollMilliseconds is how long to wait for an event of a cgroup before checking anyway.
const pollMilliseconds = 50

// Kill sends SIGKILL to all processes of the group, also to those that are being forked, are
// stopped or frozen, or in cgroups below. It does not wait until they have ended. Before Linux 5.14
// a process that forks all the time may escape; KillAll repeats it.
func (g *Group) Kill() error {
	if g.kill == nil {
		return g.killEach()
	}
	if _, err := g.kill.WriteString("1"); err != nil && !cgroup.Removed(err) {
		return fmt.Errorf("kill cgroup %s: %w", g.Directory, err)
	}
	return nil
}

// killEach kills what is in the group, one after the other. They are frozen first: a frozen process
// forks no more, and dies all the same.
func (g *Group) killEach() error {
	if err := cgroup.Write(g.Directory, "cgroup.freeze", "1"); err != nil && !cgroup.Removed(err) {
		return fmt.Errorf("kill cgroup %s: %w", g.Directory, err)
	}
	return g.Signal(unix.SIGKILL)
}

// KillAll kills all processes of the group until none is left. The error is ErrNotEmpty if ctx ends
// before: a process that waits uninterruptibly ends when its device answers, and not earlier.
func (g *Group) KillAll(ctx context.Context) error {
	for {
		if err := g.Kill(); err != nil {
			return err
		}
		if empty, err := g.Empty(); err != nil || empty {
			return err
		}
		if err := g.poll(ctx); err != nil {
			return err
		}
	}
}

// Await waits until no process is left. The error is ErrNotEmpty if ctx ends before.
func (g *Group) Await(ctx context.Context) error {
	for {
		if empty, err := g.Empty(); err != nil || empty {
			return err
		}
		if err := g.poll(ctx); err != nil {
			return err
		}
	}
}

// Empty reports whether no process is left. Zombies do not count.
func (g *Group) Empty() (bool, error) {
	if g.events == nil {
		return true, nil
	}
	populated, err := cgroup.Event(g.events, "populated")
	if cgroup.Removed(err) {
		return true, nil
	}
	return !populated && err == nil, err
}

// poll waits for an event of the group, for a limited time.
func (g *Group) poll(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("cgroup %s: %w: %w%s", g.Directory, ErrNotEmpty, context.Cause(ctx), g.Blocked())
	}
	watch := []unix.PollFd{{Fd: int32(g.events.Fd()), Events: unix.POLLPRI}}
	if _, err := unix.Poll(watch, pollMilliseconds); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("watch %s: %w", g.events.Name(), err)
	}
	return nil
}

// Blocked names processes that wait uninterruptibly, for a device or a file system: they cannot be
// killed now. It is empty if there are none, and otherwise begins with a semicolon.
func (g *Group) Blocked() (text string) {
	pids, _ := g.Processes()
	for _, pid := range pids {
		if stat, err := proc.ReadStat(pid); err == nil && stat.State == 'D' && len(text) < maxBlocked {
			text += fmt.Sprintf("; pid %d waits uninterruptibly", pid)
		}
	}
	return text
}

// maxBlocked is about how long the text of Blocked becomes.
const maxBlocked = 200

// Processes lists the processes of the group and of cgroups below.
func (g *Group) Processes() (pids []int, err error) {
	err = filepath.WalkDir(g.Directory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			var more []int
			more, err = cgroup.Processes(path)
			pids = append(pids, more...)
		}
		if cgroup.Removed(err) {
			return nil
		}
		return err
	})
	return pids, err
}

// Remove removes the group's cgroups, with those below, once no process is left. It waits for the
// kernel until ctx ends, because ending processes still count.
func (g *Group) Remove(ctx context.Context) error {
	for {
		err := g.removeOnce()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w%s", err, g.Blocked())
		}
		pause(ctx)
	}
}

// removeOnce tries to remove the cgroups of both versions.
func (g *Group) removeOnce() error {
	all := removeTree(g.Directory)
	for _, directory := range g.legacy {
		all = errors.Join(all, removeTree(directory))
	}
	return all
}

// removeTree removes a cgroup and those below it.
func removeTree(directory string) error {
	entries, err := os.ReadDir(directory)
	if cgroup.Removed(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(directory, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(directory); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", directory, err)
	}
	return nil
}

// Rehearse does what Kill does, in an empty cgroup below, so that a later Kill needs nothing from a
// disk. Kill itself must not be tried on a group in which processes are still to be started: since
// Linux 6.14 the kernel takes a process that is started from outside for one that was being forked
// when the group was killed, and kills it.
func (g *Group) Rehearse() error {
	below := &Group{Directory: filepath.Join(g.Directory, "rehearsal")}
	if err := makeNew(below.Directory); err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	err := below.open()
	if err == nil {
		err = below.Kill()
	}
	return errors.Join(err, below.Close(), below.removeOnce())
}
