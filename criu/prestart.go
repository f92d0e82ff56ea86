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

// Prestart starts the watchdog of the next Freeze, and its CRIU, which waits until the tree is
// frozen. If CRIU's options have changed by then, another CRIU is started.
func (c *CPU) Prestart(ctx context.Context, tree *ckpt.Tree, images *os.File) (drop func() error, err error) {
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
	if err := guard.Prestart(ctx, root, c.dumpOrder(found, images, deadline(ctx, dumpTime)), images); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	p := &prestart{client: guard}
	if !c.addPrestarted(root, p) {
		return nil, errors.Join(watchdog.ErrOrder, guard.Close())
	}
	return func() error { return c.dropPrestarted(root, p) }, nil
}

// prestart is a watchdog that waits for the Freeze of a tree. Each tree has at most one.
type prestart struct {
	// client is nil while it is in use.
	client  *watchdog.Client
	dropped bool
}

// prestarts are those of all trees, by their roots.
type prestarts struct {
	mu     sync.Mutex
	byRoot map[proc.Identity]*prestart
}

// addPrestarted stores p, unless the tree already has one.
func (c *CPU) addPrestarted(root proc.Identity, p *prestart) bool {
	c.prestarted.mu.Lock()
	defer c.prestarted.mu.Unlock()
	if c.prestarted.byRoot[root] != nil {
		return false
	}
	if c.prestarted.byRoot == nil {
		c.prestarted.byRoot = make(map[proc.Identity]*prestart)
	}
	c.prestarted.byRoot[root] = p
	return true
}

// takeWatchdog returns the watchdog that Prestart started for a tree, or a new one.
func (c *CPU) takeWatchdog(root proc.Identity) (guard *watchdog.Client, from *prestart, err error) {
	c.prestarted.mu.Lock()
	if from = c.prestarted.byRoot[root]; from != nil {
		guard, from.client = from.client, nil
	}
	c.prestarted.mu.Unlock()
	if guard == nil {
		guard, err = watchdog.Start(c.options.Roles)
	}
	return guard, from, err
}

// returnWatchdog keeps a watchdog for the next Freeze, or until it is dropped. Its exit need not be
// waited for while the tree is frozen.
func (c *CPU) returnWatchdog(from *prestart, guard *watchdog.Client) bool {
	c.prestarted.mu.Lock()
	defer c.prestarted.mu.Unlock()
	if from == nil || from.dropped || from.client != nil {
		return false
	}
	from.client = guard
	return true
}

// dropPrestarted removes p and ends its watchdog.
func (c *CPU) dropPrestarted(root proc.Identity, p *prestart) error {
	c.prestarted.mu.Lock()
	guard := p.client
	p.client, p.dropped = nil, true
	if c.prestarted.byRoot[root] == p {
		delete(c.prestarted.byRoot, root)
	}
	c.prestarted.mu.Unlock()
	if guard == nil {
		return nil
	}
	return guard.Close()
}
