package criu

import (
	"context"
	"errors"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/pager"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// CanLoad reports whether CRIU and the kernel can restore memory while processes of a user run.
// CRIU without phos's patch can do it only for root.
func (c *CPU) CanLoad(ctx context.Context, uid uint32) bool {
	return c.usersLazyPages.in(ctx, c.options.Program) || uid == 0 && c.lazyPages.in(ctx, c.options.Program)
}

// Composes reports whether a pager writes a file of CRIU's.
func (c *CPU) Composes(name string) bool { return pager.Composes(name) }

// Load starts the pager of a tree.
func (c *CPU) Load(ctx context.Context, order ckpt.LoadOptions) (ckpt.Memory, error) {
	started, err := pager.Start(ctx, c.options.Roles, pager.Order{
		Image: order.Image, Tree: order.Tree, Root: order.Root, Eager: order.Eager,
	}, order.Images, order.Packs)
	if err != nil {
		return nil, err
	}
	return memory{started}, nil
}

// Plan says how the memory of a tree comes back.
func (c *CPU) Plan(reader *contents.Reader, tree string, root int) (ckpt.MemoryPlan, error) {
	return pager.Plan(reader, tree, root)
}

// memory implements ckpt.Memory.
type memory struct{ *pager.Pager }

func (m memory) Bytes() uint64 { return m.LazyBytes }

// addPager lets the restorer keep what a pager needs.
func (p *plan) addPager(order ckpt.RestoreOptions) {
	p.Pager = none
	if m, ok := order.Memory.(memory); ok {
		p.Pager, p.Eager = p.add(m.Link()), order.Eager
	}
}

// Loaded waits until all memory of the tree is there.
func (r *restored) Loaded(ctx context.Context) error { return r.client.Loaded(ctx) }

// AwaitRestore waits until the restore that has made a process is finished.
func (c *CPU) AwaitRestore(ctx context.Context, process proc.Identity) error {
	return c.sharing.waitFinished(ctx, process)
}

// Settle waits until the restore that has made a process is over, and for the tree's memory.
func (c *CPU) Settle(ctx context.Context, process proc.Identity) error {
	if err := c.AwaitRestore(ctx, process); err != nil {
		return err
	}
	if tree := c.sharing.treeOf(process); tree != nil {
		return tree.client.Loaded(ctx)
	}
	return nil
}

// TrackRestored implements ckpt.RestoredTracker.
func (c *CPU) TrackRestored(ctx context.Context, process proc.Identity) (*os.File, error) {
	tree, pid, err := c.sharing.find(process)
	if err != nil {
		return nil, err
	}
	return tree.client.Track(ctx, pid)
}

// ForgetTracked implements ckpt.RestoredTracker.
func (c *CPU) ForgetTracked(ctx context.Context, process proc.Identity) error {
	tree, pid, err := c.sharing.find(process)
	if err != nil {
		return ignoreUntracked(err)
	}
	userfaultfd, err := tree.client.Track(ctx, pid)
	if err != nil {
		return ignoreUntracked(err)
	}
	defer userfaultfd.Close()
	err = writetrack.Release(userfaultfd, process.PID, 0, writetrack.Everything)
	return errors.Join(err, tree.client.Forget(ctx, pid))
}

// ignoreUntracked returns nil for a process that is not tracked, or has ended.
func ignoreUntracked(err error) error {
	if errors.Is(err, ckpt.ErrUntracked) || proc.Gone(err) {
		return nil
	}
	return err
}

// find returns the restored tree of a process, and its pid in the image. The error is ErrUntracked
// if it is in none.
func (s *sharing) find(process proc.Identity) (tree *restored, pid int, err error) {
	if tree = s.treeOf(process); tree == nil {
		return nil, 0, ckpt.ErrUntracked
	}
	status, err := proc.ReadStatus(process.PID)
	if err != nil {
		return nil, 0, err
	}
	return tree, status.InnermostPID(), nil
}
