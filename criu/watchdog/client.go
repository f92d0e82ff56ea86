package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Client is phosd's connection to a watchdog.
type Client struct {
	conn    *fdpass.Conn
	command *exec.Cmd
	id      proc.Identity
}

// Start starts a watchdog. program is the command line of phosd.
func Start(program []string) (*Client, error) {
	near, far, err := fdpass.Pair()
	if err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	defer far.Close()
	command := runner.RoleCommand(program, Role, far)
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start watchdog: %w", err), near.Close())
	}
	id, err := proc.Of(command.Process.Pid)
	return &Client{conn: near, command: command, id: id}, err
}

// grace is how long a watchdog may take, beyond its deadline, to undo what it has begun.
const grace = runner.LeaveTime + refreezeTime + 2*freezer.Patience

// Prestart moves a running tree into a cgroup and starts CRIU for a later dump, up to the point
// where CRIU would inspect the tree. If the later dump has other options, this CRIU is discarded.
func (c *Client) Prestart(ctx context.Context, root proc.Identity, how Dump, images *os.File) error {
	return c.ask(ctx, deadlineOf(ctx, how.Deadline), order{Prestart: &prestart{Root: root, Dump: how}}, images)
}

// deadlineOf returns the deadline of ctx, or otherwise.
func deadlineOf(ctx context.Context, otherwise time.Time) time.Time {
	if at, ok := ctx.Deadline(); ok {
		return at
	}
	return otherwise
}

// Freeze freezes a tree.
func (c *Client) Freeze(ctx context.Context, root proc.Identity, deadline time.Time) error {
	return c.ask(ctx, deadline, order{Freeze: &freeze{Root: root, Deadline: deadline}})
}

// Dump writes images of the frozen tree into a directory. The tree stays frozen.
func (c *Client) Dump(ctx context.Context, how Dump, images *os.File) error {
	return c.ask(ctx, how.Deadline, order{Dump: &how}, images)
}

// Precopy writes the memory of a running tree into a directory, and makes the kernel track later
// writes.
func (c *Client) Precopy(ctx context.Context, how Precopy, images *os.File) error {
	return c.ask(ctx, how.Deadline, order{Precopy: &how}, images)
}

// Thaw resumes the tree.
func (c *Client) Thaw() error { return c.ask(context.Background(), time.Now(), order{Thaw: true}) }

// Kill ends the tree.
func (c *Client) Kill() error {
	if c.hasEnded() {
		// The tree is still frozen, so it can be killed without the watchdog.
		return killFor(c.id)
	}
	return c.ask(context.Background(), time.Now(), order{Kill: true})
}

// hasEnded reports whether the watchdog has ended.
func (c *Client) hasEnded() bool {
	stat, err := proc.ReadStat(c.id.PID)
	return proc.Gone(err) || err == nil && (stat.Zombie() || stat.Identity != c.id)
}

// Close ends the watchdog, which undoes what is left, and waits for it.
func (c *Client) Close() error {
	closed := c.conn.Close()
	killed := time.AfterFunc(grace, func() { _ = c.command.Process.Kill() })
	err := c.command.Wait()
	if !killed.Stop() {
		return errors.Join(errors.New("watchdog does not end"), sweep(c.id))
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		// It was killed or failed: undo here what it has left.
		err = sweep(c.id)
	}
	return errors.Join(closed, err)
}

// ask sends an order and waits for the answer. Each order has its own deadline; a watchdog that
// stays silent for longer counts as dead.
func (c *Client) ask(ctx context.Context, deadline time.Time, what order, files ...*os.File) error {
	if err := errors.Join(c.conn.Deadline(deadline.Add(grace)), c.conn.Send(what, files...)); err != nil {
		return c.lost(err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.Send(order{Cancel: true, Late: errors.Is(context.Cause(ctx), context.DeadlineExceeded)})
	})
	defer stop()
	var answer fdpass.Outcome
	if _, err := c.conn.Receive(&answer); err != nil {
		return c.lost(err)
	}
	return kinds.Err(answer)
}

// lost cleans up after a watchdog that has ended unexpectedly.
func (c *Client) lost(err error) error {
	if fdpass.HungUp(err) {
		err = fmt.Errorf("pid %d has ended before its work was done; try again", c.id.PID)
	}
	return errors.Join(fmt.Errorf("watchdog: %w", err), sweep(c.id))
}
