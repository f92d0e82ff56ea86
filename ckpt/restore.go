package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Source is an image to restore from: one generation, verified.
type Source struct {
	Manifest *image.Manifest
	Reader   *contents.Reader
	// Name is the image's, for messages.
	Name string
	// Packs are the files that Reader reads.
	Packs []*os.File
	// Release closes the packs and the reader. Prepare calls it on failure; after that Commit or
	// Close of the Prepared does.
	Release func()
}

// PrepareOptions says how to prepare an image: everything of a restore except the processes.
type PrepareOptions struct {
	Source Source
	CPU    CPU
	// Worker starts the worker that restores the GPU half of a process.
	Worker func(ctx context.Context, half *image.GPUHalf, source Source, eager bool) (GPURestore, error)
	// Work creates a private directory, as in CheckpointOptions.
	Work func(bytes uint64, uid, gid uint32) (WorkDir, error)
	// Library opens a file with the content of a saved library. It is called only if the library's
	// path holds another content.
	Library func(saved image.SavedFile, content io.Reader) (*os.File, error)
	// Eager loads all memory before the programs run.
	Eager    bool
	Deadline time.Duration
	Progress func(Step)
	Log      *slog.Logger
	Fail     Failpoints
	// Root is the root directory below which the programs ran; nil is that of this process.
	Root *rootdir.Root
}

// GPURestore is the worker that restores the GPU half of one process.
type GPURestore interface {
	// Files returns the files that replace paths which the process had mapped.
	Files() map[string]*os.File
	// Ready blocks until the process may run.
	Ready(ctx context.Context, progress func(Step)) error
	// Attach gives the worker its program, which is still frozen. From then on the session is a
	// normal one.
	Attach(ctx context.Context, program proc.Identity) error
	// Loaded blocks until all memory is loaded and returns its size.
	Loaded(ctx context.Context) (bytes uint64, err error)
	// Abort ends the worker and frees what it holds. After Attach it ends the session.
	Abort()
}

// CommitOptions says how to restore the processes of a prepared image.
type CommitOptions struct {
	// Endpoints are files for the ends that lead out of the image, by Endpoint.ID.
	Endpoints map[uint32]*os.File
	NewPids   bool
	Detach    bool
	// Control returns a path at which a later phosd can find the restorer of a tree.
	Control func() string
	Cgroup  string
	Output  *os.File
	// Found, if not nil, is told of each tree before it runs.
	Found func(Restored)
	// Hold, if not nil, is called when the workers are ready and only the processes are missing; with
	// HoldRestored, when the processes are there, too, and frozen.
	Hold         func(context.Context) error
	HoldRestored bool
	Progress     func(Step)
	// Notice, if not nil, gets messages for the user.
	Notice func(text string)
	// Place is as in RestoreOptions, and Root its root directory.
	Place proc.Identity
	Root  *rootdir.Root
	// Network is as in RestoreOptions.
	Network proc.Identity
	// Files decides about files that have changed since the checkpoint.
	Files savedfile.Policy
	// CompareContent is set if equal times of a file do not prove that it has not changed.
	CompareContent bool
	// Own are pids that do not count as other programs: those of the caller.
	Own []int
}

// Prepared is an image of which everything is restored but the processes. The caller either commits
// or closes it.
type Prepared struct {
	order    PrepareOptions
	steps    *sequence
	progress *progress
	roots    []int
	workDirs []WorkDir
	memories []Memory // of each root; nil if CRIU's files have everything
	workers  map[int]GPURestore
	files    map[string]*os.File // saved libraries that are not at their paths

	mu sync.Mutex // guards workers while Prepare fills it
}

// RestoreResult is a restored, running tree.
type RestoreResult struct {
	// Trees has one element for each root of the image, in its order.
	Trees []Restored
	// Root is the root process of the first tree.
	Root      proc.Identity
	Processes int
	// Took is the duration of each step.
	Took    map[string]time.Duration
	workers map[int]GPURestore
	// lazyBytes is how much of the processes' memory comes while they run.
	lazyBytes uint64
}

// Prepare unpacks CRIU's files and starts the workers. With Eager set it returns when all memory is
// loaded. On failure it leaves nothing behind.
func Prepare(ctx context.Context, order PrepareOptions) (*Prepared, error) {
	progress := newProgress(order.Progress)
	p := &Prepared{
		order: order, progress: progress, steps: newSequence(order.Fail, order.Log),
		roots: rootsOf(order.Source.Manifest), workers: make(map[int]GPURestore), files: make(map[string]*os.File),
	}
	if err := p.steps.run(ctx, p.preparationSteps()...); err != nil {
		return nil, err
	}
	return p, nil
}

// A restore has two halves. Prepare makes everything ready but the processes; a pre-restore runs it
// in advance. Commit restores the processes.
//
// The step "ready", which waits for the workers, runs once and as late as possible. An eager
// restore loads all memory, which takes long and does not need the processes, so "ready" ends the
// first half. With Hold set, "ready" runs before Hold, because Hold's caller expects that only the
// processes are missing. Otherwise workers load while CRIU restores the processes, and "ready"
// comes after that.

// preparationSteps returns the steps of the first half.
func (p *Prepared) preparationSteps() []step {
	steps := []step{
		{"prepare", p.checkRoots, p.release},
		{"unpack", p.unpackAll, p.removeTemporary},
		{"workers", p.startWorkers, p.endWorkers},
	}
	if p.order.Eager {
		steps = append(steps, p.readyStep())
	}
	return steps
}

// commitSteps returns the steps of the second half.
func (r *restore) commitSteps() (steps []step) {
	eager, late := r.Prepared.order.Eager, r.order.HoldRestored
	readyFirst := r.order.Hold != nil && !late
	hold := step{"restore-hold", r.hold, nil}
	if readyFirst && !eager {
		steps = append(steps, r.readyStep())
	}
	if !late {
		steps = append(steps, hold)
	}
	steps = append(steps, step{"processes", r.processes, r.killTrees})
	if !readyFirst && !eager {
		steps = append(steps, r.readyStep())
	}
	steps = append(steps, step{"attach", r.attach, nil})
	if late {
		steps = append(steps, hold)
	}
	return append(steps, step{"keep", r.keepTrees, nil})
}

func (p *Prepared) readyStep() step { return step{"ready", p.ready, nil} }

// release closes the image.
func (p *Prepared) release() {
	if p.order.Source.Release != nil {
		p.order.Source.Release()
	}
}

// rootsOf returns the processes whose parents are not in the image.
func rootsOf(m *image.Manifest) (roots []int) {
	inside := make(map[int]bool, len(m.Processes))
	for _, p := range m.Processes {
		inside[p.PID] = true
	}
	for _, p := range m.Processes {
		if !inside[p.Parent] || p.Parent == p.PID {
			roots = append(roots, p.PID)
		}
	}
	return roots
}

// checkRoots rejects manifests from which no process tree can be restored.
func (p *Prepared) checkRoots(context.Context) error {
	m := p.order.Source.Manifest
	if m.CPU.Tree == "" && !m.Partial() {
		return fmt.Errorf("%w: the processes were not saved", ErrPartial)
	}
	if m.Partial() {
		return fmt.Errorf("%w: only %s were saved", ErrPartial, strings.Join(m.Kinds, ", "))
	}
	if len(p.roots) == 0 {
		return fmt.Errorf("%w: no process is the root", image.ErrMalformed)
	}
	return nil
}

// ErrPartial is returned when an image lacks something that a restore needs.
var ErrPartial = errors.New("partial image")

// unpackAll writes CRIU's files into directories that only CRIU can enter.
func (p *Prepared) unpackAll(ctx context.Context) error {
	m := p.order.Source.Manifest
	tree, err := readTree(p.order.Source.Reader, m.CPU.Tree)
	if err != nil {
		return fmt.Errorf("unpack processes: %w", err)
	}
	for _, root := range p.roots {
		if err := p.unpackTree(ctx, tree, root); err != nil {
			return fmt.Errorf("unpack processes: %w", err)
		}
	}
	for _, saved := range m.Files {
		if err := p.findLibrary(saved); err != nil {
			return err
		}
	}
	return nil
}

// unpackTree writes CRIU's files of one tree. Memory that may come later is left to the CPU.
func (p *Prepared) unpackTree(ctx context.Context, tree *image.Tree, root int) error {
	m := p.order.Source.Manifest
	files := unpacking{
		reader: p.order.Source.Reader, tree: tree, root: root, composed: func(string) bool { return false },
		trusted: m.Owner.UID == 0, // another user may have made mappings that must be there at once
	}
	loader, lazy := p.order.CPU.(LazyLoader)
	if lazy = lazy && loader.CanLoad(ctx, m.Owner.UID); lazy {
		files.composed = loader.Composes
	}
	work, err := p.order.Work(files.bytes(), m.Owner.UID, m.Owner.GID)
	if err != nil {
		return err
	}
	p.workDirs = append(p.workDirs, work)
	if err := files.into(ctx, work.Descriptor()); err != nil {
		return err
	}
	var memory Memory
	if lazy {
		memory, err = loader.Load(ctx, LoadOptions{
			Image: p.order.Source.Name, Tree: m.CPU.Tree, Root: root,
			Images: work.Descriptor(), Packs: p.order.Source.Packs, Eager: p.order.Eager,
		})
	}
	if err != nil {
		return err
	}
	p.memories = append(p.memories, memory)
	return nil
}

// findLibrary makes a copy of a saved library if the file at its path is missing or has changed.
func (p *Prepared) findLibrary(saved image.SavedFile) error {
	owner := p.order.Source.Manifest.Owner
	if !saved.Library ||
		sameContent(p.order.Root, fsuid.Rights{UID: owner.UID, GID: owner.GID, Groups: owner.Groups}, saved) {
		return nil
	}
	content, err := savedfile.Content(p.order.Source.Reader, saved)
	if err != nil {
		return err
	}
	p.files[saved.Path], err = p.order.Library(saved, content)
	return err
}

// startWorkers starts a worker for each process that used a GPU.
func (p *Prepared) startWorkers(ctx context.Context) error {
	var work []func(context.Context) error
	for _, each := range p.order.Source.Manifest.Processes {
		if each.GPU == nil {
			continue
		}
		work = append(work, func(ctx context.Context) error {
			made, err := p.order.Worker(ctx, each.GPU, p.order.Source, p.order.Eager)
			if err != nil {
				return fmt.Errorf("pid %d: %w", each.PID, err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.workers[each.PID] = made
			return nil
		})
	}
	return pool.Run(ctx, work...)
}

// ready blocks until the programs may run.
func (p *Prepared) ready(ctx context.Context) error {
	var work []func(context.Context) error
	for pid, each := range p.workers {
		work = append(work, func(ctx context.Context) error {
			if err := each.Ready(ctx, func(now Step) { p.progress.part(pid, now) }); err != nil {
				return fmt.Errorf("pid %d: %w", pid, err)
			}
			return nil
		})
	}
	return pool.Run(ctx, work...)
}

// Close undoes Prepare.
func (p *Prepared) Close() { p.steps.undo() }

// endWorkers aborts all workers.
func (p *Prepared) endWorkers() {
	for _, each := range p.workers {
		each.Abort()
	}
	clear(p.workers)
}

// removeTemporary removes the files that are needed only until the processes are restored.
func (p *Prepared) removeTemporary() {
	for _, work := range p.workDirs {
		if err := work.Remove(); err != nil {
			p.steps.log.Error("cannot remove temporary files of a restore", "error", err)
		}
	}
	p.workDirs = nil
	for _, memory := range p.memories {
		if memory == nil {
			continue
		}
		if err := memory.Close(); err != nil {
			p.steps.log.Error("cannot end the pager of a restore", "error", err)
		}
	}
	p.memories = nil
	for _, file := range p.files {
		_ = file.Close() // opened for reading only
	}
	clear(p.files)
}

// Loaded blocks until all memory is loaded.
func (r *RestoreResult) Loaded(ctx context.Context) (bytes uint64, err error) {
	var mu sync.Mutex
	var work []func(context.Context) error
	for _, each := range r.workers {
		work = append(work, func(ctx context.Context) error {
			loaded, err := each.Loaded(ctx)
			mu.Lock()
			defer mu.Unlock()
			bytes += loaded
			return err
		})
	}
	for _, tree := range r.Trees {
		work = append(work, tree.Loaded)
	}
	bytes += r.lazyBytes
	return bytes, pool.Run(ctx, work...)
}
