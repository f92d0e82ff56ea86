package ckpt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// SaveOrder says what to save, where, and how.
type SaveOrder struct {
	// Roots of the process trees; each is saved whole.
	Roots []proc.Identity
	CPU   CPU
	// Admit, if not nil, may reject trees before anything else happens.
	Admit func(trees []*Tree) error
	// Devices returns the GPU halves of the processes of trees.
	Devices func(trees []*Tree) ([]Device, error)
	// Work creates a private directory for about so many bytes, into which the user's CRIU writes.
	Work func(bytes uint64, uid, gid uint32) (Work, error)
	// Image is where the image is written.
	Image Target
	// Manifest holds what is known of the image in advance: version, host, group, kinds.
	Manifest image.Manifest
	Options  DeviceOptions
	// FileBytes is the largest size at which a file is saved with its content.
	FileBytes uint64
	// Deadline is how long the programs may take to become idle.
	Deadline time.Duration
	// Stop ends the programs once the image is complete.
	Stop bool
	// Hold, if not nil, is called after the cut. If it fails, so does the checkpoint.
	Hold func(context.Context) error
	// Publish, if not nil, is called with the written generation, before a program is ended.
	Publish func(ctx context.Context, generation uint64) error
	// Untracked, if not nil, is called if this host cannot precopy the memory of processes.
	Untracked func()
	// Notice gets messages for the user, each once.
	Notice func(text string)
	Log    *slog.Logger
	Fail   Failpoints
}

// Work is a private directory.
type Work interface {
	// Descriptor is the open directory.
	Descriptor() *os.File
	// MemoryBytes is how much memory its files may take; 0 means that they lie on a disk.
	MemoryBytes() uint64
	// Remove deletes the directory and its content.
	Remove() error
}

// Saved is the result of a checkpoint.
type Saved struct {
	Manifest *image.Manifest
	// Pause is from the first closed gate until all gates were open again, or the programs were
	// ended.
	Pause, Total time.Duration
	// GPUWrittenBytes is the part of the written bytes that belongs to the GPU halves.
	GPUWrittenBytes, MemoryBytes uint64
	// Took is the duration of each step.
	Took map[string]time.Duration
	// Within is the duration of the parallel parts of the cut: "processes", "gpu", "files". With
	// several programs it is the longest.
	Within map[string]time.Duration
}

// ObstacleError lists everything that prevents saving or restoring a tree.
type ObstacleError struct {
	Obstacles []Obstacle
}

func (e *ObstacleError) Error() string {
	said := make([]string, len(e.Obstacles))
	for i, o := range e.Obstacles {
		said[i] = o.Subject + ": " + o.Reason
		if o.Remedy != "" {
			said[i] += " (" + o.Remedy + ")"
		}
	}
	return strings.Join(said, "; ")
}

// Serious returns the obstacles that are not harmless.
func Serious(obstacles []Obstacle) []Obstacle {
	return slices.DeleteFunc(slices.Clone(obstacles), func(o Obstacle) bool { return o.Harmless })
}

// checkpoint is a checkpoint in progress.
type checkpoint struct {
	order   SaveOrder
	steps   *sequence
	progress   *progress
	trees   []*Tree
	devices []*device
	image   *imageWriter
	work    []Work
	frozen  []Frozen
	// dumped is set after a first dump, which must be discarded before the next one.
	dumped bool
	// prepared are the functions that release what was prepared for the pause.
	prepared []func() error
	files    []image.SavedFile
	halves   map[int]image.GPUHalf
	cpu      image.CPUHalf
	// firstPause is when the first attempt at the pause began, lastPause when the last one did.
	firstPause, lastPause time.Time
	pause           time.Duration
	timing          timing
	// groups are those of the first tree's root.
	groups []uint32

	mu sync.Mutex // guards noticed
	// noticed are the notices that were already given.
	noticed map[string]bool
}

// Save takes a checkpoint. On failure the programs run on, and the image directory is as before.
func Save(ctx context.Context, order SaveOrder) (*Saved, error) {
	begin := time.Now()
	meter := newProgress(order.Options.Progress)
	v := &checkpoint{
		order: order, progress: meter, steps: newSequence(order.Fail, order.Log, meter.phase),
		halves: make(map[int]image.GPUHalf), noticed: make(map[string]bool),
	}
	steps := []step{
		{"inspect", v.inspect, nil},
		{"begin", v.begin, v.abort},
		{"precopy", v.precopy, v.abortDevices},
		{"pause", v.pauseAll, nil},
		{"go-on", v.resumeAll, nil},
		{"write", func(ctx context.Context) error { return runAbandonable(ctx, v.write) }, nil},
		{"finish", v.finish, nil},
		{"commit", v.commit, nil},
	}
	if order.Publish != nil {
		steps = append(steps, step{"publish", v.publish, nil})
	}
	err := v.steps.run(ctx, steps...)
	if err != nil {
		return nil, err
	}
	// The image is complete. A failure from here on does not undo it, and cancelling has no effect.
	v.steps.keep()
	err = v.steps.run(context.WithoutCancel(ctx), step{"end", v.endPrograms, v.thaw})
	v.abortDevices()
	err = errors.Join(err, v.dropPrepared(), v.removeWork())
	saved := &Saved{
		Manifest: &v.order.Manifest,
		Pause:    v.pause,
		Total:    time.Since(begin),
		Took:     v.steps.took,
		Within:   v.timing.longest,
	}
	for _, half := range v.halves {
		saved.GPUWrittenBytes += half.WrittenBytes
		saved.MemoryBytes += half.MemoryBytes
	}
	return saved, err
}

// inspect inspects everything before anything is stopped.
func (v *checkpoint) inspect(ctx context.Context) (err error) {
	var trees []*Tree
	err = v.retryBusy(ctx, time.Now().Add(v.order.Deadline), func(ctx context.Context) error {
		trees, err = v.inspectAll(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if v.order.Admit != nil {
		if err := v.order.Admit(trees); err != nil {
			return err
		}
	}
	v.trees = trees
	return nil
}

// inspectAll inspects all trees. A root that is inside another root's tree is saved with that tree.
func (v *checkpoint) inspectAll(ctx context.Context) ([]*Tree, error) {
	var trees []*Tree
	var obstacles []Obstacle
	covered := make(map[int]bool)
	for _, root := range v.order.Roots {
		if covered[root.PID] {
			continue
		}
		tree, err := v.order.CPU.Inspect(ctx, root)
		if err != nil {
			return nil, err
		}
		for _, p := range tree.Processes {
			covered[p.PID] = true
		}
		for _, o := range tree.Obstacles {
			if o.Harmless {
				v.notice(o.Subject + ": " + o.Reason)
			}
		}
		obstacles = append(obstacles, Serious(tree.Obstacles)...)
		trees = append(trees, tree)
	}
	// A partial image saves nothing of the processes, so obstacles do not matter.
	if len(obstacles) > 0 && len(v.order.Manifest.Kinds) == 0 {
		err := fmt.Errorf("cannot be saved: %w", &ObstacleError{obstacles})
		if !slices.ContainsFunc(obstacles, func(o Obstacle) bool { return !o.Passing }) {
			err = Busy(err)
		}
		return nil, err
	}
	// Drop trees whose root is inside a tree that was found later.
	return slices.DeleteFunc(trees, func(t *Tree) bool {
		return slices.ContainsFunc(trees, func(other *Tree) bool {
			return other != t &&
				slices.ContainsFunc(other.Processes[1:], func(p Process) bool { return p.PID == t.Processes[0].PID })
		})
	}), nil
}

// notice passes a notice on, once.
func (v *checkpoint) notice(text string) {
	v.mu.Lock()
	known := v.noticed[text]
	v.noticed[text] = true
	v.mu.Unlock()
	if v.order.Notice != nil && !known {
		v.order.Notice(text)
	}
}

// begin opens the transaction and a private directory for each tree's CRIU.
func (v *checkpoint) begin(ctx context.Context) (err error) {
	if v.image, err = v.order.Image.begin(ctx, v.order.Options); err != nil {
		return err
	}
	if len(v.order.Manifest.Kinds) > 0 {
		return nil
	}
	for _, tree := range v.trees {
		root := tree.Processes[0]
		work, err := v.order.Work(dumpBytes(tree), root.UID, root.GID)
		if err != nil {
			return err
		}
		v.work = append(v.work, work)
	}
	return nil
}

// dumpBytes estimates what CRIU will write: pages and its own records of each process.
func dumpBytes(tree *Tree) uint64 {
	const recordBytes = 4 << 20
	return residentBytes(tree) + uint64(len(tree.Processes))*recordBytes
}

func residentBytes(tree *Tree) (bytes uint64) {
	for _, p := range tree.Processes {
		bytes += p.ResidentBytes
	}
	return bytes
}

// dumpTime is how long CRIU may take for a tree.
func (v *checkpoint) dumpTime(tree *Tree) time.Duration {
	return v.order.Deadline + time.Duration(dumpBytes(tree)/dumpSecondBytes)*time.Second
}

func (v *checkpoint) abort() {
	if v.image != nil {
		v.image.abort()
	}
	if err := errors.Join(v.dropPrepared(), v.removeWork()); err != nil {
		v.steps.log.Error("cannot remove temporary files of a checkpoint", "error", err)
	}
}

// removeWork removes the private directories.
func (v *checkpoint) removeWork() error {
	var failures []error
	for _, work := range v.work {
		failures = append(failures, work.Remove())
	}
	v.work = nil
	return errors.Join(failures...)
}

// publish passes the image on.
func (v *checkpoint) publish(ctx context.Context) error {
	return v.order.Publish(ctx, v.order.Manifest.Generation)
}

// endPrograms kills the frozen programs, if the options say so.
func (v *checkpoint) endPrograms(context.Context) error {
	if !v.order.Stop {
		return nil
	}
	var failures []error
	// What cannot be killed is thawed by the undo of this step; nothing may stay frozen.
	v.frozen = slices.DeleteFunc(v.frozen, func(frozen Frozen) bool {
		err := frozen.Kill()
		failures = append(failures, err)
		return err == nil
	})
	v.pause = time.Since(v.lastPause)
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("the image is complete, but the program cannot be killed: %w", err)
	}
	return nil
}
