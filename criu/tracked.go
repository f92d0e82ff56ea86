package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/hostcopy"
	"github.com/phos-gpu/phos/criu/inspect"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// precopyTracked copies the memory of the processes whose writes their userfaultfds track. The
// error is ckpt.ErrUntracked if there is none, or if CRIU cannot use the copy.
func (c *CPU) precopyTracked(
	ctx context.Context, found *inspect.Findings, images *os.File, track ckpt.Track,
) (drop func() error, err error) {
	if track == nil || !c.trackedByOthers(ctx) {
		return nil, ckpt.ErrUntracked
	}
	processes, end, err := c.trackAll(ctx, found, track)
	if err == nil && (len(processes) == 0 || c.softDirtyHasMore(ctx, found, processes)) {
		closeAll(processes)
		err = ckpt.ErrUntracked
	}
	if err != nil {
		end()
		return nil, err
	}
	into, err := ckpt.MakeParentImages(images)
	if err != nil {
		closeAll(processes)
		end()
		return nil, fmt.Errorf("precopy: %w", err)
	}
	copied, err := hostcopy.Copy(ctx, into, processes)
	if err != nil {
		end()
		return nil, errors.Join(fmt.Errorf("precopy: %w", err), into.Close())
	}
	return func() error {
		defer end()
		return errors.Join(copied.Release(), into.Close())
	}, nil
}

// softDirtyHasMore reports whether CRIU's precopy would be of more memory: that of the whole tree.
func (c *CPU) softDirtyHasMore(ctx context.Context, found *inspect.Findings, processes []hostcopy.Process) bool {
	var tracked uint64
	for _, p := range found.Processes {
		if slices.ContainsFunc(processes, func(each hostcopy.Process) bool { return each.Identity == p.Identity }) {
			tracked += p.ResidentBytes
		}
	}
	return tracked < found.ResidentBytes()/2 && found.User.UID == 0 && c.checkTracking(ctx) == nil
}

// trackAll returns the processes that can be tracked, and what ends that.
func (c *CPU) trackAll(
	ctx context.Context, found *inspect.Findings, track ckpt.Track,
) (processes []hostcopy.Process, end func(), err error) {
	var ends []func()
	taken := false // by another checkpoint
	end = func() {
		for _, each := range ends {
			each()
		}
	}
	for _, p := range found.Processes {
		if p.Direct {
			continue
		}
		if !c.tracked.claim(p.Identity) {
			taken = true
			continue
		}
		userfaultfd, ended, err := track(ctx, p.Identity)
		if errors.Is(err, ckpt.ErrUntracked) || proc.Gone(err) {
			c.tracked.release(p.Identity)
			continue
		}
		if err != nil {
			c.tracked.release(p.Identity)
			closeAll(processes)
			return nil, end, err
		}
		ends = append(ends, func() {
			ended()
			c.tracked.release(p.Identity)
		})
		processes = append(processes, hostcopy.Process{Identity: p.Identity, Inner: p.Inner, UID: p.UID, Userfaultfd: userfaultfd})
	}
	if taken && len(processes) == 0 {
		return nil, end, ckpt.ErrTracked
	}
	return processes, end, nil
}

// claims are the processes that are tracked now. The protection of a page says that it was not
// written since a checkpoint has looked, so only one checkpoint at a time may look: another that is
// taken beside it copies the process in its pause.
type claims struct {
	mu      sync.Mutex // guards claimed
	claimed map[proc.Identity]bool
}

// claim claims a process, unless another has.
func (c *claims) claim(process proc.Identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claimed[process] {
		return false
	}
	if c.claimed == nil {
		c.claimed = make(map[proc.Identity]bool)
	}
	c.claimed[process] = true
	return true
}

// release ends a claim.
func (c *claims) release(process proc.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.claimed, process)
}

// closeAll closes the descriptors of processes that are not copied.
func closeAll(processes []hostcopy.Process) {
	for _, each := range processes {
		_ = each.Userfaultfd.Close()
	}
}

// TracksWrites implements ckpt.WriteTracker.
func (c *CPU) TracksWrites() bool { return c.trackedByOthers(context.Background()) }

// trackedByOthers reports whether CRIU takes pages that others track from parent images: phos
// builds it with a patch for that.
func (c *CPU) trackedByOthers(ctx context.Context) bool {
	return c.trackWritten.in(ctx, c.options.Program)
}

// dropDirect lets CRIU write the memory of processes that have begun direct I/O since it was
// copied.
func dropDirect(images *os.File, processes []ckpt.Process) error {
	earlier, err := ckpt.OpenParentImages(images)
	if err != nil {
		return err
	}
	for _, p := range processes {
		if p.Direct {
			err = errors.Join(err, hostcopy.Discard(earlier, p.Inner))
		}
	}
	return errors.Join(err, earlier.Close())
}

// inventory is a file of every dump and pre-dump that CRIU has written.
const inventory = "inventory.img"

// parentImages returns the name of the directory with a Precopy's images, or "" if there is none,
// and whether phos has written them: CRIU would have added an inventory.
func parentImages(images *os.File) (name string, byPhos bool) {
	earlier, err := ckpt.OpenParentImages(images)
	if err != nil {
		return "", false
	}
	defer earlier.Close()
	err = unix.Faccessat(int(earlier.Fd()), inventory, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW)
	return ckpt.ParentImages, errors.Is(err, unix.ENOENT)
}
