package criu

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/watchdog"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Prepare starts the watchdog of the next Freeze, and its CRIU, which waits until the tree is
// frozen. If CRIU's options have changed by then, another CRIU is started.
func (c *CPU) Prepare(ctx context.Context, tree *ckpt.Tree, images *os.File) (drop func() error, err error) {
	root := tree.Processes[0].Identity
	found, err := c.inspect(ctx, root)
	if err != nil {
		return nil, err
	}
	if err := obstacleError(found.Obstacles); err != nil {
		return nil, err
	}
	guard, err := watchdog.Start(c.options.Roles)
	if err != nil {
		return nil, err
	}
	if err := guard.Ready(ctx, root, c.dumpOrder(found, images, deadline(ctx, dumpTime)), images); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	p := &preparation{client: guard}
	if !c.addPrepared(root, p) {
		return nil, errors.Join(watchdog.ErrOrder, guard.Close())
	}
	return func() error { return c.dropPrepared(root, p) }, nil
}

// preparation is a watchdog that waits for the Freeze of a tree. Each tree has at most one.
type preparation struct {
	// client is nil while it is in use.
	client  *watchdog.Client
	dropped bool
}

// preparations are those of all trees, by their roots.
type preparations struct {
	mu     sync.Mutex
	byRoot map[proc.Identity]*preparation
}

// addPrepared stores p, unless the tree already has a preparation.
func (c *CPU) addPrepared(root proc.Identity, p *preparation) bool {
	c.prepared.mu.Lock()
	defer c.prepared.mu.Unlock()
	if c.prepared.byRoot[root] != nil {
		return false
	}
	if c.prepared.byRoot == nil {
		c.prepared.byRoot = make(map[proc.Identity]*preparation)
	}
	c.prepared.byRoot[root] = p
	return true
}

// takeWatchdog returns the watchdog that was prepared for a tree, or a new one.
func (c *CPU) takeWatchdog(root proc.Identity) (guard *watchdog.Client, from *preparation, err error) {
	c.prepared.mu.Lock()
	if from = c.prepared.byRoot[root]; from != nil {
		guard, from.client = from.client, nil
	}
	c.prepared.mu.Unlock()
	if guard == nil {
		guard, err = watchdog.Start(c.options.Roles)
	}
	return guard, from, err
}

// returnWatchdog keeps a watchdog for the next Freeze, or until it is dropped. Its exit need not be
// waited for while the tree is frozen.
func (c *CPU) returnWatchdog(from *preparation, guard *watchdog.Client) bool {
	c.prepared.mu.Lock()
	defer c.prepared.mu.Unlock()
	if from == nil || from.dropped || from.client != nil {
		return false
	}
	from.client = guard
	return true
}

// dropPrepared removes the preparation and ends its watchdog.
func (c *CPU) dropPrepared(root proc.Identity, p *preparation) error {
	c.prepared.mu.Lock()
	guard := p.client
	p.client, p.dropped = nil, true
	if c.prepared.byRoot[root] == p {
		delete(c.prepared.byRoot, root)
	}
	c.prepared.mu.Unlock()
	if guard == nil {
		return nil
	}
	return guard.Close()
}
