package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/inspect"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/criu/watchdog"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Precopy writes the memory of a running tree, if writes can be tracked from then on: by the
// processes' userfaultfds, or by the kernel's soft-dirty bits.
func (c *CPU) Precopy(
	ctx context.Context, tree *ckpt.Tree, images *os.File, track ckpt.Track,
) (done ckpt.Precopied, err error) {
	found, err := c.inspect(ctx, tree.Processes[0].Identity)
	if err != nil {
		return done, err
	}
	if err := sameUser(tree, &found.Tree); err != nil {
		return done, fmt.Errorf("precopy: %w", err)
	}
	if err := obstacleError(found.Obstacles); err != nil {
		return done, fmt.Errorf("precopy: %w", err)
	}
	done.Drop, err = c.precopyTracked(ctx, found, images, track)
	done.Kept = err == nil
	if errors.Is(err, ckpt.ErrUntracked) {
		done.Drop, err = c.precopySoftDirty(ctx, found, images)
	}
	if err == nil {
		err = c.stillSameUser(ctx, tree)
	}
	return done, err
}

// minSoftDirtyBytes is the least memory for which CRIU precopies: it stops each process once more
// for that.
const minSoftDirtyBytes = 64 << 20

// precopySoftDirty lets CRIU write the memory of a running tree, whose soft-dirty bits it resets.
func (c *CPU) precopySoftDirty(
	ctx context.Context, found *inspect.Findings, images *os.File,
) (drop func() error, err error) {
	if found.ResidentBytes() < minSoftDirtyBytes {
		return nil, nil
	}
	if err := c.checkTracking(ctx); err != nil {
		return nil, err
	}
	if found.User.UID != 0 {
		// CRIU needs root to detect whether the kernel tracks writes.
		return nil, fmt.Errorf("processes of user %d: %w", found.User.UID, ckpt.ErrUntracked)
	}
	release, ok := c.claimAll(found)
	if !ok {
		return nil, ckpt.ErrTracked
	}
	if err := c.preDump(ctx, found, images); err != nil {
		release()
		return nil, err
	}
	return func() error {
		release()
		return nil
	}, nil
}

// claimAll claims all processes of a tree.
func (c *CPU) claimAll(found *inspect.Findings) (release func(), ok bool) {
	var claimed []proc.Identity
	release = func() {
		for _, each := range claimed {
			c.tracked.release(each)
		}
	}
	for _, p := range found.Processes {
		if !c.tracked.claim(p.Identity) {
			release()
			return nil, false
		}
		claimed = append(claimed, p.Identity)
	}
	return release, true
}

// preDump lets CRIU write the memory of a running tree.
func (c *CPU) preDump(ctx context.Context, found *inspect.Findings, images *os.File) error {
	into, err := ckpt.MakeParentImages(images)
	if err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	defer into.Close()
	guard, err := watchdog.Start(c.options.Roles)
	if err != nil {
		return err
	}
	how := watchdog.Precopy{Tree: found.Processes[0].Identity, Dump: watchdog.Dump{
		Program: c.options.Program, User: found.User, Root: found.Root, Namespaces: found.Namespaces,
		Deadline: deadline(ctx, dumpTime),
	}}
	return errors.Join(guard.Precopy(ctx, how, into), guard.Close())
}

// stillSameUser returns an error if the tree has become another user's during a precopy: what was
// written must not be kept then.
func (c *CPU) stillSameUser(ctx context.Context, admitted *ckpt.Tree) error {
	now, err := c.inspect(ctx, admitted.Processes[0].Identity)
	if err == nil {
		err = sameUser(admitted, &now.Tree)
	}
	if err != nil {
		return fmt.Errorf("after precopy: %w", err)
	}
	return nil
}

// sameUser returns an error unless the root is the user's as which the tree was admitted, and so is
// every process: the images belong to that user, and only that user's memory may be in them.
func sameUser(admitted, now *ckpt.Tree) error {
	root := admitted.Processes[0]
	for _, p := range now.Processes {
		if p.UID != root.UID || p.GID != root.GID {
			return fmt.Errorf("%w: pid %d is user %d:%d, the tree was admitted as %d:%d",
				ErrAnotherUser, p.PID, p.UID, p.GID, root.UID, root.GID)
		}
	}
	return nil
}

// ErrAnotherUser is returned when a process has become another user's since its tree was admitted.
var ErrAnotherUser = errors.New("process has become another user's")

// tracking caches whether the kernel tracks written pages.
type tracking struct {
	mu    sync.Mutex // guards known
	known *bool
}

// checkTracking returns ErrUntracked if the kernel does not track written pages. CRIU is asked
// once.
func (c *CPU) checkTracking(ctx context.Context) error {
	c.tracking.mu.Lock()
	defer c.tracking.mu.Unlock()
	if c.tracking.known == nil {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		answer, err := runner.Run(ctx, runner.Request{
			Program: c.options.Program, Type: rpc.CriuReqType_FEATURE_CHECK,
			Features: &rpc.CriuFeatures{MemTrack: proto.Bool(true)},
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.options.Program, err)
		}
		c.tracking.known = proto.Bool(answer.GetFeatures().GetMemTrack())
	}
	if !*c.tracking.known {
		return ckpt.ErrUntracked
	}
	return nil
}
