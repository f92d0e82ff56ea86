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
	if err := c.checkTracking(ctx); err != nil {
		return err
	}
	root := tree.Processes[0]
	found, err := c.inspect(ctx, root.Identity)
	if err != nil {
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
	return errors.Join(guard.Precopy(ctx, how, into), guard.Close())
}

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
