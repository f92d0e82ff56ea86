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

// SaveOrder says what is to be saved, and by whom.
type SaveOrder struct {
	// Roots of the process trees; each is saved whole.
	Roots []proc.Identity
	CPU   CPU
	// Admit, if not nil, may refuse trees before anything else happens.
	Admit func(trees []*Tree) error
	// Devices finds the GPU halves of the processes of trees.
	Devices func(trees []*Tree) ([]Device, error)
	// Work makes a private directory for about so many bytes, which a user's CRIU writes into.
	Work func(bytes uint64, uid, gid uint32) (Work, error)
	// Image is where everything goes.
	Image Target
	// Manifest is what is known of the image beforehand: version, host, group, kinds.
	Manifest image.Manifest
	Options  DeviceOptions
	// FileBytes is how large a file may be to be saved with its content.
	FileBytes uint64
	// Deadline is how long the programs may take to come to rest.
	Deadline time.Duration
	// Stop ends the programs once the image is complete.
	Stop bool
	// Hold, if not nil, is called when everything is cut; what it waits for decides whether the image
	// will be.
	Hold func(context.Context) error
	// Publish, if not nil, is called with the generation that was written, before a program is ended.
	Publish func(ctx context.Context, generation uint64) error
	// Untracked, if not nil, is called when the memory of processes cannot be copied beforehand on
	// this machine.
	Untracked func()
	// Notice is told what is worth knowing, once.
	Notice func(text string)
	Log    *slog.Logger
	Fail   Failpoints
}

// Work is a private directory.
type Work interface {
	// Descriptor is the open directory.
	Descriptor() *os.File
	// MemoryBytes is how much memory its files may take; 0: they lie on a disk.
	MemoryBytes() uint64
	// Remove deletes it with what is in it.
	Remove() error
}

// Saved says what came of it.
type Saved struct {
	Manifest *image.Manifest
	// Pause is from the first gate that closed until all were open again, or the programs were ended.
	Pause, Total time.Duration
	// GPUWrittenBytes are those of the written ones that the GPU halves took.
	GPUWrittenBytes, MemoryBytes uint64
	// Took says how long each step took.
	Took map[string]time.Duration
	// Within says how long the parts of the cut took, which are done at the same time: "processes",
	// "gpu", "files"; of several programs' the longest.
	Within map[string]time.Duration
}

// ObstacleError is everything that stands against saving or restoring a tree.
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

// Serious are the obstacles that stand in the way.
func Serious(obstacles []Obstacle) []Obstacle {
	return slices.DeleteFunc(slices.Clone(obstacles), func(o Obstacle) bool { return o.Harmless })
}

// saving is a checkpoint on its way.
type saving struct {
	order   SaveOrder
	steps   *sequence
	gauge   *gauge
	trees   []*Tree
	devices []*device
	image   *imageWriter
	work    []Work
	frozen  []Frozen
	// dumped: the processes were written once, in vain.
	dumped bool
	// prepared takes back what was prepared for the pause.
	prepared []func() error
	files    []image.SavedFile
	halves   map[int]image.GPUHalf
	cpu      image.CPUHalf
	// waiting is when the first attempt at the pause began, paused when the last one did.
	waiting, paused time.Time
	pause           time.Duration
	within          within
	// groups are those of the first tree's root.
	groups []uint32

	mu sync.Mutex // guards noticed
	// noticed are the notices that were given.
	noticed map[string]bool
}

// Save takes a checkpoint. When it fails the programs run on and the image directory is as it was.
func Save(ctx context.Context, order SaveOrder) (*Saved, error) {
	begin := time.Now()
	meter := newGauge(order.Options.Progress)
	v := &saving{
		order: order, gauge: meter, steps: newSequence(order.Fail, order.Log, meter.phase),
		halves: make(map[int]image.GPUHalf), noticed: make(map[string]bool),
	}
	steps := []step{
		{"inspect", v.inspect, nil},
		{"begin", v.begin, v.abort},
		{"precopy", v.precopy, v.abortDevices},
		{"pause", v.pauseAll, nil},
		{"go-on", v.goOn, nil},
		{"write", func(ctx context.Context) error { return leaving(ctx, v.write) }, nil},
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
	// The image is complete: nothing that goes wrong from here on takes it back, and a caller who
	// gives up comes too late.
	v.steps.keep()
	err = v.steps.run(context.WithoutCancel(ctx), step{"end", v.end, v.thaw})
	v.abortDevices()
	err = errors.Join(err, v.dropPrepared(), v.clear())
	saved := &Saved{
		Manifest: &v.order.Manifest,
		Pause:    v.pause,
		Total:    time.Since(begin),
		Took:     v.steps.took,
		Within:   v.within.longest,
	}
	for _, half := range v.halves {
		saved.GPUWrittenBytes += half.WrittenBytes
		saved.MemoryBytes += half.MemoryBytes
	}
	return saved, err
}

// inspect looks at everything before anything is stopped.
func (v *saving) inspect(ctx context.Context) (err error) {
	var trees []*Tree
	err = v.patiently(ctx, time.Now().Add(v.order.Deadline), func(ctx context.Context) error {
		trees, err = v.look(ctx)
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

// look inspects all trees. A root that stands in another one's tree is saved with it.
func (v *saving) look(ctx context.Context) ([]*Tree, error) {
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
	// A partial image needs nothing of the processes but that they stand still.
	if len(obstacles) > 0 && len(v.order.Manifest.Kinds) == 0 {
		err := fmt.Errorf("cannot be saved: %w", &ObstacleError{obstacles})
		if !slices.ContainsFunc(obstacles, func(o Obstacle) bool { return !o.Passing }) {
			err = Busy(err)
		}
		return nil, err
	}
	// A later root may have been the parent of an earlier one's.
	return slices.DeleteFunc(trees, func(t *Tree) bool {
		return slices.ContainsFunc(trees, func(other *Tree) bool {
			return other != t &&
				slices.ContainsFunc(other.Processes[1:], func(p Process) bool { return p.PID == t.Processes[0].PID })
		})
	}), nil
}

func (v *saving) notice(text string) {
	v.mu.Lock()
	known := v.noticed[text]
	v.noticed[text] = true
	v.mu.Unlock()
	if v.order.Notice != nil && !known {
		v.order.Notice(text)
	}
}

// begin opens the transaction, and a private directory for each tree's CRIU.
func (v *saving) begin(ctx context.Context) (err error) {
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

// dumpBytes is about what CRIU will write: pages, and its own records of each process.
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
func (v *saving) dumpTime(tree *Tree) time.Duration {
	return v.order.Deadline + time.Duration(dumpBytes(tree)/dumpSecondBytes)*time.Second
}

func (v *saving) abort() {
	if v.image != nil {
		v.image.abort()
	}
	if err := errors.Join(v.dropPrepared(), v.clear()); err != nil {
		v.steps.log.Error("clear up after a checkpoint", "error", err)
	}
}

// clear removes the private directories.
func (v *saving) clear() error {
	var failures []error
	for _, work := range v.work {
		failures = append(failures, work.Remove())
	}
	v.work = nil
	return errors.Join(failures...)
}

// publish passes the image on.
func (v *saving) publish(ctx context.Context) error {
	return v.order.Publish(ctx, v.order.Manifest.Generation)
}

// end ends the programs where they stand, when that was asked for.
func (v *saving) end(context.Context) error {
	if !v.order.Stop {
		return nil
	}
	var failures []error
	// What cannot be ended goes on: nothing may stand still for ever.
	v.frozen = slices.DeleteFunc(v.frozen, func(frozen Frozen) bool {
		err := frozen.Kill()
		failures = append(failures, err)
		return err == nil
	})
	v.pause = time.Since(v.paused)
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("the image is complete, but the program could not be ended: %w", err)
	}
	return nil
}
