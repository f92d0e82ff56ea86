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

// Precopy writes the memory of a running tree, where the kernel can tell what is written from then
// on.
func (c *CPU) Precopy(ctx context.Context, tree *ckpt.Tree, images *os.File) error {
	if err := c.tracks(ctx); err != nil {
		return err
	}
	root := tree.Processes[0]
	found, err := c.look(ctx, root.Identity)
	if err != nil {
		return err
	}
	if found.User.UID != 0 {
		// CRIU with a user's rights cannot see whether the kernel tracks, and refuses.
		return fmt.Errorf("processes of user %d: %w", found.User.UID, ckpt.ErrUntracked)
	}
	into, err := ckpt.MakeEarlier(images)
	if err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	defer into.Close()
	guard, err := watchdog.Start(c.options.Roles)
	if err != nil {
		return err
	}
	how := watchdog.Precopy{Tree: root.Identity, Dump: watchdog.Dump{
		Program: c.options.Program, User: found.User, Root: found.Root, Namespaces: found.Namespaces, Deadline: deadline(ctx, dumpTime),
	}}
	return errors.Join(guard.Precopy(ctx, how, into), guard.Close())
}

// tracking says whether the kernel tracks written pages, once CRIU has been asked.
type tracking struct {
	mu    sync.Mutex // guards known
	known *bool
}

// tracks asks CRIU, once, whether the kernel tracks which pages are written.
func (c *CPU) tracks(ctx context.Context) error {
	c.tracking.mu.Lock()
	defer c.tracking.mu.Unlock()
	if c.tracking.known == nil {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		answer, err := runner.Run(ctx, runner.Request{
			Program: c.options.Program, Type: rpc.CriuReqType_FEATURE_CHECK, Features: &rpc.CriuFeatures{MemTrack: proto.Bool(true)},
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

// earlierIn is the directory among the images in which a Precopy is; empty for none.
func earlierIn(images *os.File) string {
	earlier, err := ckpt.OpenEarlier(images)
	if err != nil {
		return ""
	}
	_ = earlier.Close() // only looked for
	return ckpt.EarlierImages
}
