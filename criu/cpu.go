package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/checkpoint-restore/go-criu/v7/rpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/inspect"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/criu/watchdog"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Options are what a CPU is made of.
type Options struct {
	// Roles is the command that becomes a watchdog or a keeper when the name of the role is added:
	// phosd itself.
	Roles []string
	// Program is CRIU's executable.
	Program string
	// Ours reports whether a path is one of the files by which phos serves its programs.
	Ours func(path string) bool
	// Knowledge is the place of CRIU's answers about the kernel, as in engine.Knowledge; empty: none.
	Knowledge string
}

// CPU saves and restores processes by CRIU.
type CPU struct {
	options  Options
	version  version
	sharing  sharing
	tracking tracking
	prepared preparations
	// knowledge is nil where it is not kept.
	knowledge *runner.Knowledge
}

// New makes a CPU.
func New(options Options) *CPU {
	c := &CPU{options: options}
	if options.Knowledge != "" {
		c.knowledge = &runner.Knowledge{Program: options.Program, Place: options.Knowledge}
	}
	return c
}

// Close takes away what Learn has kept.
func (c *CPU) Close() error {
	if c.knowledge == nil {
		return nil
	}
	return c.knowledge.Withdraw()
}

// Learn has CRIU ask the kernel what it can, and keeps that for all that it does later. Where it
// cannot be kept, each run takes longer, and that is all.
func (c *CPU) Learn(ctx context.Context) error {
	if c.knowledge == nil || c.options.Program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return c.knowledge.Provide(ctx)
}

var (
	_ ckpt.CPU      = (*CPU)(nil)
	_ ckpt.Preparer = (*CPU)(nil)
)

// Deadlines of those who name none.
const (
	freezeTime  = 10 * time.Second
	dumpTime    = 10 * time.Minute
	restoreTime = 10 * time.Minute
	checkTime   = time.Minute
)

func deadline(ctx context.Context, otherwise time.Duration) time.Time {
	if at, ok := ctx.Deadline(); ok {
		return at
	}
	return time.Now().Add(otherwise)
}

// Inspect looks at a tree, and stops nothing.
func (c *CPU) Inspect(ctx context.Context, root proc.Identity) (*ckpt.Tree, error) {
	found, err := c.look(ctx, root)
	if err != nil {
		return nil, err
	}
	found.CRIU, err = c.version.of(ctx, c.options.Program)
	if errors.Is(err, ErrNoProgram) || errors.Is(err, ErrOld) {
		found.Obstacles, err = append(
			found.Obstacles,
			ckpt.Obstacle{Subject: "CRIU", Reason: err.Error(), Remedy: remedy},
		), nil
	}
	return &found.Tree, err
}

func (c *CPU) look(ctx context.Context, root proc.Identity) (*inspect.Findings, error) {
	return inspect.Look(ctx, root, inspect.Options{Ours: c.options.Ours})
}

// Check says what CRIU here cannot do.
func (c *CPU) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if _, err := c.version.of(ctx, c.options.Program); err != nil {
		return err
	}
	if _, err := ask(ctx, c.options.Program, rpc.CriuReqType_CHECK); err != nil {
		return fmt.Errorf("%s: %w", c.options.Program, err)
	}
	_, err := cgroup.Of(os.Getpid())
	return err
}

// Sweep takes back what a phosd has left that was killed together with its helpers.
func (c *CPU) Sweep(context.Context) error { return errors.Join(watchdog.Sweep(), restorer.Sweep()) }

// frozen is a tree that stands still.
type frozen struct {
	cpu   *CPU
	root  proc.Identity
	from  *preparation // nil: nothing was prepared
	mu    sync.Mutex
	guard *watchdog.Client
}

// Freeze makes a tree stand still.
func (c *CPU) Freeze(ctx context.Context, tree *ckpt.Tree) (ckpt.Frozen, error) {
	root := tree.Processes[0].Identity
	guard, from, err := c.guard(root)
	if err != nil {
		return nil, err
	}
	if err := guard.Freeze(ctx, root, deadline(ctx, freezeTime)); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	return &frozen{cpu: c, root: root, from: from, guard: guard}, nil
}

// Dump writes images of the frozen tree, as it is now. Of memory that a Precopy has written there,
// only what changed.
func (f *frozen) Dump(ctx context.Context, images *os.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil {
		return fmt.Errorf("dump: %w", watchdog.ErrOrder)
	}
	found, err := f.cpu.look(ctx, f.root)
	if err != nil {
		return err
	}
	if err := refusal(found.Obstacles); err != nil {
		return err
	}
	if err := writeRecord(images, newRecord(found)); err != nil {
		return err
	}
	return f.guard.Dump(ctx, f.cpu.order(found, images, deadline(ctx, dumpTime)), images)
}

// order is how CRIU shall dump what was found.
func (c *CPU) order(found *inspect.Findings, images *os.File, deadline time.Time) watchdog.Dump {
	return watchdog.Dump{
		Program: c.options.Program, User: found.User, Root: found.Root, External: found.External, ShellJob: found.ShellJob,
		Aliases: found.Aliases, Connected: found.Connected, Datagrams: found.Datagrams, Namespaces: found.Namespaces, Deadline: deadline,
		Earlier: earlierIn(images),
	}
}

// refusal makes an error of obstacles that are not harmless.
func refusal(obstacles []ckpt.Obstacle) error {
	var serious []ckpt.Obstacle
	for _, o := range obstacles {
		if !o.Harmless {
			serious = append(serious, o)
		}
	}
	if len(serious) == 0 {
		return nil
	}
	return &ckpt.ObstacleError{Obstacles: serious}
}

// Thaw lets the tree go on.
func (f *frozen) Thaw() error { return f.finish((*watchdog.Client).Thaw) }

// Kill ends the tree.
func (f *frozen) Kill() error { return f.finish((*watchdog.Client).Kill) }

func (f *frozen) finish(how func(*watchdog.Client) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil {
		return nil
	}
	if err := how(f.guard); err != nil {
		return err
	}
	guard := f.guard
	f.guard = nil
	if f.cpu.giveBack(f.from, guard) {
		return nil
	}
	return guard.Close()
}
