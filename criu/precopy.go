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
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/criu/watchdog"
)

// Precopy writes the memory of a running tree, if the kernel can track writes from then on.
func (c *CPU) Precopy(ctx context.Context, tree *ckpt.Tree, images *os.File) error {
	root := tree.Processes[0]
	found, err := c.inspect(ctx, root.Identity)
	if err != nil {
		return err
	}
	if err := sameUser(tree, &found.Tree); err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	if err := obstacleError(found.Obstacles); err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	if err := c.checkTracking(ctx); err != nil {
		return err
	}
	if found.User.UID != 0 {
		// CRIU needs root to detect whether the kernel tracks writes.
		return fmt.Errorf("processes of user %d: %w", found.User.UID, ckpt.ErrUntracked)
	}
	into, err := ckpt.MakeParentImages(images)
	if err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	defer into.Close()
	guard, err := watchdog.Start(c.options.Roles)
	if err != nil {
		return err
	}
	how := watchdog.Precopy{Tree: root.Identity, Dump: watchdog.Dump{
		Program: c.options.Program, User: found.User, Root: found.Root, Namespaces: found.Namespaces,
		Deadline: deadline(ctx, dumpTime),
	}}
	err = errors.Join(guard.Precopy(ctx, how, into), guard.Close())
	if err == nil {
		err = c.stillSameUser(ctx, tree)
	}
	return err
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

// parentImages returns the name of the directory with a Precopy's images, or "" if there is none.
func parentImages(images *os.File) string {
	earlier, err := ckpt.OpenParentImages(images)
	if err != nil {
		return ""
	}
	_ = earlier.Close() // only its existence matters
	return ckpt.ParentImages
}
