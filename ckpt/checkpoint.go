package ckpt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// CheckpointOptions says what to save, where, and how.
type CheckpointOptions struct {
	// Roots of the process trees; each is saved whole.
	Roots []proc.Identity
	CPU   CPU
	// Admit, if not nil, may reject trees. It is asked before anything else happens, and again once
	// the trees are frozen: until then a program may execute a setuid program.
	Admit func(trees []*Tree) error
	// Devices returns the GPU halves of the processes of trees.
	Devices func(trees []*Tree) ([]GPU, error)
	// Track finds what tracks the writes of a process; nil: nothing does.
	Track Track
	// Work creates a private directory for about so many bytes, into which the user's CRIU writes.
	Work func(bytes uint64, uid, gid uint32) (WorkDir, error)
	// Image is where the image is written.
	Image Target
	// Manifest holds what is known of the image in advance: version, host, group, kinds.
	Manifest image.Manifest
	Options  GPUOptions
	// FileBytes is the largest size at which a file is saved with its content.
	FileBytes uint64
	// Deadline is how long the programs may take to become idle, and, for each of CRIU and the files
	// of a program, the disk beyond what its speed allows for. The deadline of the context is that of
	// the whole checkpoint.
	Deadline time.Duration
	// Stop ends the programs once the image is complete.
	Stop bool
	// Connections are the networks to which TCP connections are saved although their other ends are
	// not in the trees: these are saved in the same cut, and the network between them is cut off
	// while the trees are frozen.
	Connections []netip.Prefix
	// Hold, if not nil, is called after the cut. If it fails, so does the checkpoint.
	Hold func(context.Context) error
	// Meet, if not nil, means that this is one of several checkpoints that make one cut. It is called
	// at each Point, and returns when all are there: ErrBusy if all have to try again from the point
	// ready, any other error if there will be no cut.
	Meet func(context.Context, Arrival) error
	// Publish, if not nil, is called with the written generation, before a program is ended. It
	// writes within the limit.
	Publish func(ctx context.Context, generation uint64, limit *contents.Limit) error
	// Untracked, if not nil, is called if this host cannot precopy the memory of processes.
	Untracked func()
	// Notice gets messages for the user, each once.
	Notice func(text string)
	Log    *slog.Logger
	Fail   Failpoints
}

// WorkDir is a private directory.
type WorkDir interface {
	// Descriptor is the open directory.
	Descriptor() *os.File
	// MemoryBytes is how much memory its files may take; 0 means that they lie on a disk.
	MemoryBytes() uint64
	// Remove deletes the directory and its content.
	Remove() error
}

// CheckpointResult is the result of a checkpoint.
type CheckpointResult struct {
	Manifest *image.Manifest
	// Pause is from the first closed gate of the last attempt until all gates were open again, or,
	// for programs that are ended, until their image was complete. It is what the manifest has.
	Pause, Total time.Duration
	// GPUWrittenBytes is the part of the written bytes that belongs to the GPU halves.
	GPUWrittenBytes, MemoryBytes uint64
	// Took is the duration of each step. "attempts" has all attempts to pause the programs, with the
	// waits between them; the steps in it have the sums of all attempts.
	Took map[string]time.Duration
	// Paused is what the last pause was spent on: the steps "quiesce", "freeze", "cut" and "hold",
	// and the parallel parts of the cut, "cut.processes", "cut.gpu" and "cut.files". With
	// several programs it is the longest.
	Paused map[string]time.Duration
}

// ObstacleError lists everything that prevents saving or restoring a tree.
type ObstacleError struct {
	Obstacles []Obstacle
}

func (e *ObstacleError) Error() string {
	texts := make([]string, len(e.Obstacles))
	for i, o := range e.Obstacles {
		texts[i] = o.Subject + ": " + o.Reason
		if o.Remedy != "" {
			texts[i] += " (" + o.Remedy + ")"
		}
	}
	return strings.Join(texts, "; ")
}

// Serious returns the obstacles that are not harmless.
func Serious(obstacles []Obstacle) []Obstacle {
	return slices.DeleteFunc(slices.Clone(obstacles), func(o Obstacle) bool { return o.Harmless })
}

// checkpoint is a checkpoint in progress.
type checkpoint struct {
	begun    time.Time
	order    CheckpointOptions
	steps    *sequence
	progress *progress
	trees    []*Tree
	devices  []*device
	image    *imageWriter
	workDirs []WorkDir
	// cramped are the numbers of work directories in memory that are too small for what their trees
	// have become.
	cramped map[int]bool
	frozen  []Frozen
	// dumped is set after a first dump, which must be discarded before the next one.
	dumped bool
	files  []image.SavedFile
	halves map[int]image.GPUHalf
	cpu    image.CPUHalf
	// sharedBytes are those of entries that the CPU half has from the generation before.
	sharedBytes uint64
	// firstPause is when the first attempt at the pause began, lastPause when the last one did.
	firstPause, lastPause time.Time
	pause                 time.Duration
	timing                timing
	// groups are those of the first tree's root.
	groups []uint32

	mu sync.Mutex // guards cramped, noticed, tracked and prestarted
	// tracked are the roots of trees whose writes are tracked since their precopy.
	tracked map[int]bool
	// prestarted are the functions that end what was started before the pause.
	prestarted []func() error
	// noticed are the notices that were already given.
	noticed map[string]bool
	// obstacles are when each obstacle was first seen. Steps run one after the other: no lock.
	obstacles map[string]time.Time
}

// Checkpoint takes a checkpoint. On failure the programs run on, and the image directory is as
// before.
func Checkpoint(ctx context.Context, order CheckpointOptions) (*CheckpointResult, error) {
	progress := newProgress(order.Options.Progress)
	c := &checkpoint{
		begun: time.Now(), order: order, progress: progress, steps: newSequence(order.Fail, order.Log),
		halves: make(map[int]image.GPUHalf), noticed: make(map[string]bool), cramped: make(map[int]bool), tracked: make(map[int]bool),
		obstacles: make(map[string]time.Time),
	}
	limit, err := contents.NewSharedLimit(order.Options.BandwidthBytes)
	if err != nil {
		return nil, err
	}
	defer limit.Close()
	c.order.Options.Limit = limit
	steps := []step{
		{"inspect", c.inspect, nil},
		{"begin", c.begin, c.abort},
		{"precopy", c.precopy, c.abortDevices},
		{"attempts", c.pauseAll, nil},
		{"resume", c.resumeAll, nil},
		{"write", func(ctx context.Context) error { return runAbandonable(ctx, c.write) }, nil},
		{"finish", c.finish, nil},
		{"commit", c.commit, nil},
	}
	if order.Publish != nil {
		steps = append(steps, step{"publish", c.publish, nil})
	}
	err = c.steps.run(ctx, steps...)
	if err != nil {
		return nil, err
	}
	// The image is complete. A failure from here on does not undo it.
	c.steps.keep()
	if err = c.awaitEnd(ctx); err != nil {
		c.thaw()
	} else {
		err = c.steps.run(context.WithoutCancel(ctx), step{"end", c.endPrograms, c.thaw})
	}
	c.abortDevices()
	return c.result(), errors.Join(err, c.dropPrestarted(), c.removeWork())
}

// result returns what was saved so far.
func (c *checkpoint) result() *CheckpointResult {
	saved := &CheckpointResult{
		Manifest: &c.order.Manifest,
		Pause:    c.pause,
		Total:    time.Since(c.begun),
		Took:     c.steps.took,
		Paused:   c.timing.longest,
	}
	for _, half := range c.halves {
		saved.GPUWrittenBytes += half.WrittenBytes
		saved.MemoryBytes += half.MemoryBytes
	}
	return saved
}

// inspect inspects everything before anything is stopped.
func (c *checkpoint) inspect(ctx context.Context) (err error) {
	if err := c.settle(ctx); err != nil {
		return err
	}
	var trees []*Tree
	err = c.retryBusy(ctx, time.Now().Add(c.order.Deadline), func(ctx context.Context) error {
		trees, err = c.inspectAll(ctx, c.order.CPU.Inspect)
		return err
	})
	if err != nil {
		return err
	}
	c.trees = trees
	return nil
}

// isConnection reports whether an obstacle is a connection whose other end is saved, too.
func (c *checkpoint) isConnection(o Obstacle) bool {
	return slices.ContainsFunc(c.order.Connections, func(p netip.Prefix) bool { return p.Contains(o.Remote) })
}

// settleNotice is how long programs may take to settle before the caller is told.
const settleNotice = 300 * time.Millisecond

// settle waits until restored programs run and have their memory.
func (c *checkpoint) settle(ctx context.Context) error {
	loader, ok := c.order.CPU.(LazyLoader)
	if !ok {
		return nil
	}
	defer time.AfterFunc(settleNotice, func() { c.progress.phase("settle") }).Stop()
	for _, root := range c.order.Roots {
		if err := loader.Settle(ctx, root); err != nil {
			return fmt.Errorf("wait until pid %d is restored: %w", root.PID, err)
		}
	}
	return nil
}

// inspectAll inspects all trees and checks whether they may be saved. A root that is inside another
// root's tree is saved with that tree.
func (c *checkpoint) inspectAll(
	ctx context.Context,
	inspect func(context.Context, proc.Identity) (*Tree, error),
) ([]*Tree, error) {
	var all []*Tree
	covered := make(map[int]bool)
	for _, root := range c.order.Roots {
		if covered[root.PID] {
			continue
		}
		tree, err := inspect(ctx, root)
		if err != nil {
			return nil, err
		}
		for _, p := range tree.Processes {
			covered[p.PID] = true
		}
		all = append(all, tree)
	}
	if c.order.Admit != nil {
		if err := c.order.Admit(all); err != nil {
			return nil, err
		}
	}
	if err := c.checkObstacles(all); err != nil {
		return nil, err
	}
	// Drop trees whose root is inside a tree that was found later.
	return slices.DeleteFunc(slices.Clone(all), func(t *Tree) bool {
		return slices.ContainsFunc(all, func(other *Tree) bool {
			return other != t &&
				slices.ContainsFunc(other.Processes[1:], func(p Process) bool { return p.PID == t.Processes[0].PID })
		})
	}), nil
}

// checkObstacles passes harmless obstacles on as notices and returns an error for the others.
func (c *checkpoint) checkObstacles(trees []*Tree) error {
	var obstacles []Obstacle
	for _, tree := range trees {
		for _, o := range tree.Obstacles {
			if o.Harmless {
				c.notice(o.Subject + ": " + o.Reason)
			}
		}
		obstacles = append(obstacles, slices.DeleteFunc(Serious(tree.Obstacles), c.isConnection)...)
	}
	// A partial image saves nothing of the processes, so obstacles do not matter.
	if len(obstacles) == 0 || len(c.order.Manifest.Kinds) > 0 {
		return nil
	}
	err := fmt.Errorf("cannot be saved: %w", &ObstacleError{obstacles})
	if !slices.ContainsFunc(obstacles, c.stays) {
		return Busy(err)
	}
	return err
}

// stayTime is how long an obstacle must last. A process that is just being started may look as if
// it could not be saved. openTime is that of an obstacle with an inode: libphos.so has a
// userfaultfd open while it replaces a few pages, which takes long on a busy machine.
const (
	stayTime = 100 * time.Millisecond
	openTime = 3 * time.Second
)

// stays reports whether an obstacle will not go away by itself: it has been there for a while.
func (c *checkpoint) stays(o Obstacle) bool {
	key := fmt.Sprint(o.Subject, o.Reason, o.Inode)
	first, seen := c.obstacles[key]
	if !seen {
		c.obstacles[key] = time.Now()
	}
	limit := stayTime
	if o.Inode != 0 {
		limit = openTime
	}
	return !o.Passing && seen && time.Since(first) >= limit
}

// notice passes a notice on, once.
func (c *checkpoint) notice(text string) {
	c.mu.Lock()
	known := c.noticed[text]
	c.noticed[text] = true
	c.mu.Unlock()
	if c.order.Notice != nil && !known {
		c.order.Notice(text)
	}
}

// begin opens the transaction and a private directory for each tree's CRIU.
func (c *checkpoint) begin(ctx context.Context) (err error) {
	if c.image, err = c.order.Image.begin(ctx, c.order.Options); err != nil {
		return err
	}
	if len(c.order.Manifest.Kinds) > 0 {
		return nil
	}
	for _, tree := range c.trees {
		root := tree.Processes[0]
		work, err := c.order.Work(c.workBytes(tree), root.UID, root.GID)
		if err != nil {
			return err
		}
		c.workDirs = append(c.workDirs, work)
	}
	return nil
}

// dumpBytes estimates what CRIU will write: pages, and its own records of each process and thread.
func dumpBytes(tree *Tree) uint64 {
	const recordBytes, threadBytes = 4 << 20, 8 << 10
	bytes := tree.ResidentBytes() + uint64(len(tree.Processes))*recordBytes
	for _, p := range tree.Processes {
		bytes += uint64(p.Threads) * threadBytes
	}
	return bytes
}

// workBytes estimates what a private directory will hold: pages may be there twice, as they were
// copied before the pause and as they were written since.
func (c *checkpoint) workBytes(tree *Tree) uint64 {
	bytes := dumpBytes(tree)
	if tracker, ok := c.order.CPU.(WriteTracker); ok && c.order.Track != nil && c.precopies(tree) && tracker.TracksWrites() {
		bytes += tree.ResidentBytes()
	}
	return bytes
}

// dumpTime is how long CRIU may take for a tree.
func (c *checkpoint) dumpTime(tree *Tree) time.Duration {
	return c.order.Deadline + time.Duration(dumpBytes(tree)/dumpSecondBytes)*time.Second
}

// abort discards the image, temporary files and what was started in advance. It logs errors.
func (c *checkpoint) abort() {
	if c.image != nil {
		c.image.abort()
	}
	if err := errors.Join(c.dropPrestarted(), c.removeWork()); err != nil {
		c.steps.log.Error("cannot remove temporary files of a checkpoint", "error", err)
	}
}

// removeWork removes the private directories.
func (c *checkpoint) removeWork() error {
	var failures []error
	for _, work := range c.workDirs {
		failures = append(failures, work.Remove())
	}
	c.workDirs = nil
	return errors.Join(failures...)
}

// publish passes the image on.
func (c *checkpoint) publish(ctx context.Context) error {
	return c.order.Publish(ctx, c.order.Manifest.Generation, c.order.Options.Limit)
}

// endPrograms kills the frozen programs, if the options say so.
func (c *checkpoint) endPrograms(context.Context) error {
	if !c.order.Stop {
		return nil
	}
	var failures []error
	// What cannot be killed is thawed by the undo of this step; nothing may stay frozen.
	c.frozen = slices.DeleteFunc(c.frozen, func(frozen Frozen) bool {
		err := frozen.Kill()
		failures = append(failures, err)
		return err == nil
	})
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("the image is complete, but the program cannot be killed: %w", err)
	}
	return nil
}
