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

// Options configure a CPU.
type Options struct {
	// Roles is the command line of phosd without arguments. With the name of a role added it
	// becomes a watchdog or a restorer.
	Roles []string
	// Program is CRIU's executable.
	Program string
	// Ours reports whether a path is a file through which phos serves its programs.
	Ours func(path string) bool
	// KernelCache is the directory for CRIU's cached kernel features, as in runner.KernelCache; empty
	// disables the cache.
	KernelCache string
	// LogJSON is set if lines of phosd's log are JSON. Restorers add lines to that log.
	LogJSON bool
}

// CPU saves and restores processes with CRIU.
type CPU struct {
	options    Options
	version    version
	sharing    sharing
	tracking   tracking
	prestarted prestarts
	// trackWritten is CRIU's use of what others track, lazyPages its restore of memory that comes
	// later: for root, and for other users.
	trackWritten, lazyPages, usersLazyPages feature
	tracked                                 claims
	// kernelCache is nil if the cache is disabled.
	kernelCache *runner.KernelCache
}

// New returns a CPU.
func New(options Options) *CPU {
	c := &CPU{
		options: options, trackWritten: feature{name: "track_written"},
		lazyPages: feature{name: "uffd-noncoop"}, usersLazyPages: feature{name: "uffd_unprivileged"},
	}
	if options.KernelCache != "" {
		c.kernelCache = &runner.KernelCache{Program: options.Program, Dir: options.KernelCache}
	}
	return c
}

// Close removes what Learn has cached.
func (c *CPU) Close() error {
	if c.kernelCache == nil {
		return nil
	}
	return c.kernelCache.Remove()
}

// CacheKernelFeatures makes CRIU probe the kernel's features and caches the result for later runs.
// Without the cache each run takes longer.
func (c *CPU) CacheKernelFeatures(ctx context.Context) error {
	if c.kernelCache == nil || c.options.Program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return c.kernelCache.Provide(ctx)
}

var (
	_ ckpt.CPU             = (*CPU)(nil)
	_ ckpt.Prestarter      = (*CPU)(nil)
	_ ckpt.RestoredTracker = (*CPU)(nil)
	_ ckpt.Overlayer       = (*CPU)(nil)
	_ ckpt.WriteTracker    = (*CPU)(nil)
	_ ckpt.LazyLoader      = (*CPU)(nil)
	_ ckpt.Warner          = (*CPU)(nil)
)

// Deadlines of calls whose context has none.
const (
	freezeTime  = 10 * time.Second
	dumpTime    = 10 * time.Minute
	restoreTime = 10 * time.Minute
	checkTime   = time.Minute
)

// deadline returns the deadline of ctx, or one in otherwise from now.
func deadline(ctx context.Context, otherwise time.Duration) time.Time {
	if at, ok := ctx.Deadline(); ok {
		return at
	}
	return time.Now().Add(otherwise)
}

// Inspect reads the state of a tree and stops nothing.
func (c *CPU) Inspect(ctx context.Context, root proc.Identity) (*ckpt.Tree, error) {
	found, err := c.inspect(ctx, root)
	if err != nil {
		return nil, err
	}
	return c.addVersion(ctx, found)
}

// addVersion adds the version of CRIU, or the obstacle that there is none or that it cannot work
// here, to what was found.
func (c *CPU) addVersion(ctx context.Context, found *inspect.Findings) (_ *ckpt.Tree, err error) {
	if inChroot() {
		found.Obstacles = append(found.Obstacles, chrooted)
	}
	found.CRIU, err = c.version.get(ctx, c.options.Program)
	if errors.Is(err, ErrNoProgram) || errors.Is(err, ErrOld) {
		found.Obstacles, err = append(
			found.Obstacles,
			ckpt.Obstacle{Subject: "CRIU", Reason: err.Error(), Remedy: remedy()},
		), nil
	}
	return &found.Tree, err
}

func (c *CPU) inspect(ctx context.Context, root proc.Identity) (*inspect.Findings, error) {
	return inspect.Inspect(ctx, root, inspect.Options{Ours: c.options.Ours})
}

// Check returns an error that says what CRIU cannot do on this host. If it is an
// ckpt.ObstacleError, another CRIU cannot do it either.
func (c *CPU) Check(ctx context.Context) error {
	if inChroot() {
		return &ckpt.ObstacleError{Obstacles: []ckpt.Obstacle{chrooted}}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if _, err := c.version.get(ctx, c.options.Program); err != nil {
		return err
	}
	if _, err := query(ctx, c.options.Program, rpc.CriuReqType_CHECK); err != nil {
		return fmt.Errorf("%s: %w", c.options.Program, err)
	}
	_, err := cgroup.Of(os.Getpid())
	return err
}

// Sweep releases what is left after phosd and its helpers were killed.
func (c *CPU) Sweep(context.Context) error { return errors.Join(watchdog.Sweep(), restorer.Sweep()) }

// frozen is a frozen tree.
type frozen struct {
	cpu  *CPU
	root proc.Identity
	from *prestart // nil without a Prestart

	mu     sync.Mutex // guards all below
	client *watchdog.Client
	found  *inspect.Findings // nil before Inspect or Dump
}

// Freeze freezes a tree.
func (c *CPU) Freeze(ctx context.Context, tree *ckpt.Tree) (ckpt.Frozen, error) {
	root := tree.Processes[0].Identity
	guard, from, err := c.takeWatchdog(root)
	if err != nil {
		return nil, err
	}
	if err := guard.Freeze(ctx, root, deadline(ctx, freezeTime)); err != nil {
		return nil, errors.Join(err, guard.Close())
	}
	f := &frozen{cpu: c, root: root, from: from, client: guard}
	if err := checkSeizable(root); err != nil {
		return nil, errors.Join(err, f.Thaw())
	}
	return f, nil
}

// checkSeizable returns ckpt.ErrBusy if a thread of a frozen tree waits for its child between vfork
// and exec: such a thread is frozen, but CRIU cannot stop it.
func checkSeizable(root proc.Identity) error {
	tree, err := proc.Tree(root)
	if err != nil {
		return err
	}
	for _, process := range tree {
		threads, err := proc.Threads(process.PID)
		if err != nil && !proc.Gone(err) {
			return err
		}
		for _, thread := range threads {
			state, err := proc.ThreadState(process.PID, thread)
			if err != nil && !proc.Gone(err) {
				return err
			}
			if state == 'D' {
				return ckpt.Busy(fmt.Errorf("pid %d (%s) waits for a child that it is starting", process.PID, process.Name()))
			}
		}
	}
	return nil
}

// Inspect inspects the frozen tree. A frozen tree cannot change itself, so Dump uses the findings.
func (f *frozen) Inspect(ctx context.Context) (*ckpt.Tree, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.inspect(ctx); err != nil {
		return nil, err
	}
	return f.cpu.addVersion(ctx, f.found)
}

// inspect sets the findings. The caller holds mu.
func (f *frozen) inspect(ctx context.Context) (err error) {
	f.found, err = f.cpu.inspect(ctx, f.root)
	return err
}

// Dump writes images of the frozen tree as it is now. Of memory that a Precopy has written there,
// it writes only what has changed.
func (f *frozen) Dump(ctx context.Context, images *os.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.client == nil {
		return fmt.Errorf("dump: %w", watchdog.ErrOrder)
	}
	if f.found == nil {
		if err := f.inspect(ctx); err != nil {
			return err
		}
	}
	if err := obstacleError(f.found.Obstacles); err != nil {
		return err
	}
	if _, byPhos := parentImages(images); byPhos {
		if err := dropDirect(images, f.found.Processes); err != nil {
			return err
		}
	}
	if err := writeRecord(images, newRecord(f.found)); err != nil {
		return err
	}
	err := f.client.Dump(ctx, f.cpu.dumpOrder(f.found, images, deadline(ctx, dumpTime)), images)
	return explainDump(err, &f.found.Tree)
}

// dumpOrder returns the watchdog's order to dump what was found.
func (c *CPU) dumpOrder(found *inspect.Findings, images *os.File, deadline time.Time) watchdog.Dump {
	earlier, byPhos := parentImages(images)
	return watchdog.Dump{
		Program: c.options.Program, User: found.User, Root: found.Root, External: found.External,
		ShellJob: found.ShellJob,
		Links:    found.Links, Connected: found.Connected, Datagrams: found.Datagrams,
		Namespaces: found.Namespaces, Deadline: deadline,
		Earlier: earlier, Tracked: byPhos,
	}
}

// obstacleError returns an error for the obstacles that are not harmless, or nil. Connections that
// can be saved if their other ends are saved, too, are the caller's to decide.
func obstacleError(obstacles []ckpt.Obstacle) error {
	var serious []ckpt.Obstacle
	for _, o := range obstacles {
		if !o.Harmless && !o.Remote.IsValid() {
			serious = append(serious, o)
		}
	}
	if len(serious) == 0 {
		return nil
	}
	return &ckpt.ObstacleError{Obstacles: serious}
}

// Thaw resumes the tree.
func (f *frozen) Thaw() error { return f.finish((*watchdog.Client).Thaw) }

// Kill ends the tree.
func (f *frozen) Kill() error { return f.finish((*watchdog.Client).Kill) }

// finish ends the use of the watchdog, once.
func (f *frozen) finish(how func(*watchdog.Client) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.client == nil {
		return nil
	}
	if err := how(f.client); err != nil {
		return err
	}
	guard := f.client
	f.client = nil
	if f.cpu.returnWatchdog(f.from, guard) {
		return nil
	}
	return guard.Close()
}
