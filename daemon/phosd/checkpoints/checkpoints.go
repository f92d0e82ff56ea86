package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/onboot"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/restored"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/retention"
	"github.com/phos-gpu/phos/daemon/phosd/metrics"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrCanceled is why something ends whose caller has cancelled it or has gone away.
var ErrCanceled = fmt.Errorf("the caller has given up: %w", context.Canceled)

// errNotBuilt is returned by a phosd without the CPU half.
var errNotBuilt = fmt.Errorf("%w: this phosd was built without checkpoints", api.ErrNotBuilt)

// sweepTimeout is how long a start may spend on what a killed phosd has left.
const sweepTimeout = 30 * time.Second

// Options are what Checkpoints need.
type Options struct {
	Config   config.Checkpoint
	Sessions Sessions
	Devices  Devices
	Dir      *rundir.Dir
	State    *statedir.Dir
	Metrics  *metrics.Metrics
	Log      *slog.Logger
	// Life ends when phosd ends.
	Life context.Context //nolint:containedctx // phosd's own life, not a request's
	// CPU saves and restores processes; nil: checkpoints are refused.
	CPU ckpt.CPU
	// Failpoints make steps fail, for tests.
	Failpoints ckpt.Failpoints
	// Output gets what a restored program writes to a terminal that it no longer has.
	Output *os.File
	// Quota counts what users' requests hold; Users are its settings.
	Quota *quota.Quota
	Users config.Users
	// Socket is phosd's.
	Socket string
	// MayUse returns an error unless a caller may use phosd.
	MayUse func(api.Caller) error
}

// Checkpoints takes and restores checkpoints.
type Checkpoints struct {
	options  Options
	config   config.Checkpoint
	sessions Sessions
	devices  Devices
	metrics  *metrics.Metrics
	log      *slog.Logger
	archive  *archive.Archive
	trees    *restored.Trees
	machine  *preflight.Machine
	prepared preparedImages
	// turns are the checkpoints of policies in flight.
	turns       turns
	directories directories
	// images removes images of ended programs; boot knows what is restored after a restart of the
	// machine.
	images *retention.Images
	boot   *onboot.Programs
	// restoring are the image directories of restores in flight.
	restoring pathSet
	// logUntracked logs, once, that this kernel does not track written pages.
	logUntracked func()
}

// New returns Checkpoints without restored trees; see Sweep.
func New(options Options) *Checkpoints {
	c := &Checkpoints{
		options: options, config: options.Config, sessions: options.Sessions, devices: options.Devices,
		metrics: options.Metrics, log: options.Log,
		archive: archive.New(archive.Options{
			State: options.State, Quota: options.Quota, Idle: time.Duration(options.Users.StreamIdle), Log: options.Log,
		}),
		trees: restored.New(restored.Options{Life: options.Life, Restorers: options.CPU, Path: options.Dir.Restorer}),
		machine: &preflight.Machine{
			Arch: thisHost().Arch, GPUs: options.Devices.GPUs(), CPU: options.CPU, Room: options.Devices.Room,
		},
	}
	c.logUntracked = sync.OnceFunc(func() {
		c.log.Info(
			"kernel does not track written pages; process memory is copied during the pause",
			"missing", "CONFIG_MEM_SOFT_DIRTY",
		)
	})
	return c
}

// Sweep reverts the checkpoints and restores that the phosd before has not finished: frozen
// programs go on, incomplete trees end. Then it adopts the restored trees. It comes before sessions
// are adopted, so that these find what is left. It fails if it cannot look: what it leaves out
// would stay until the next start. It also opens the records of images and programs.
func (c *Checkpoints) Sweep() error {
	if err := c.openRecords(); err != nil {
		return err
	}
	if c.options.CPU == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	err := c.options.CPU.Sweep(ctx)
	if proc.Unknown(err) {
		return fmt.Errorf("sweep: %w", err)
	}
	if err != nil {
		c.log.Error("revert unfinished checkpoints and restores", "error", err)
	}
	restorers, err := c.options.Dir.Restorers()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, path := range restorers {
		processes, err := c.trees.Adopt(ctx, path)
		if proc.Unknown(err) {
			return fmt.Errorf("adopt a restored tree at %s: %w", path, err)
		}
		if errors.Is(err, proc.ErrGone) {
			c.log.Info("restorer of an ended tree removed", "path", path)
			continue
		}
		if err != nil {
			c.log.Error("adopt restored tree", "path", path, "error", err)
			continue
		}
		c.log.Info("restored tree adopted", "path", path, "processes", processes)
	}
	return nil
}

// Tree finds a restored tree by its name, for a caller that may know of it.
func (c *Checkpoints) Tree(name string, caller api.Caller) (*restored.Tree, error) {
	return c.trees.Find(name, caller)
}

// DropPrepared aborts the restores that were started in advance.
func (c *Checkpoints) DropPrepared() { c.prepared.close() }

// Wait returns once the restored trees are no longer watched, soon after Options.Life has ended.
func (c *Checkpoints) Wait() { c.trees.Wait() }
