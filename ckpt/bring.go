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
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Source is an image to restore from: one generation, verified.
type Source struct {
	Manifest *image.Manifest
	Reader   *contents.Reader
	// Packs are what Reader reads.
	Packs []*os.File
	// Release closes all of it. Prepare calls it when it fails, else the Prepared does when it is
	// brought or dropped.
	Release func()
}

// PrepareOrder says what is needed to make everything of an image ready but its processes.
type PrepareOrder struct {
	Source Source
	CPU    CPU
	// Worker starts what brings the GPU half of a process back.
	Worker func(ctx context.Context, half *image.GPUHalf, source Source, eager bool) (Returning, error)
	// Work makes a private directory, as in SaveOrder.
	Work func(bytes uint64, uid, gid uint32) (Work, error)
	// Library opens a file with the content of a saved library; it is only asked when there is none at
	// the library's path.
	Library func(saved image.SavedFile, content io.Reader) (*os.File, error)
	// Eager loads all memory before the programs run.
	Eager    bool
	Deadline time.Duration
	Progress func(Step)
	Log      *slog.Logger
	Fail     Failpoints
	// Place is as in RestoreOrder.
	Place proc.Identity
}

// Returning is the GPU half of a process on its way back: a worker that was started for it.
type Returning interface {
	// Files are those that take the place of paths that the process had mapped.
	Files() map[string]*os.File
	// Ready waits until the process may run.
	Ready(ctx context.Context, progress func(Step)) error
	// Attach gives the worker its program, which stands still, and makes the session one like any
	// other.
	Attach(ctx context.Context, program proc.Identity) error
	// Loaded waits until all memory is back, and says how much it was.
	Loaded(ctx context.Context) (bytes uint64, err error)
	// Abort ends it with everything that it has. After Attach it ends the session.
	Abort()
}

// BringOrder says how the processes of a prepared image come back.
type BringOrder struct {
	// Endpoints are files for the image's outside ends, by Endpoint.ID.
	Endpoints map[uint32]*os.File
	NewPids   bool
	Detach    bool
	// Control makes a place where the keeper of a tree shall be found later.
	Control func() string
	Cgroup  string
	Output  *os.File
	// Hold, if not nil, is called when all but the processes is there, and the workers are ready.
	Hold     func(context.Context) error
	Progress func(Step)
	// Notice, if not nil, is told what is worth knowing.
	Notice func(text string)
	// Place is as in RestoreOrder.
	Place proc.Identity
}

// Prepared is an image of which everything is there but its processes. It is either brought or
// dropped.
type Prepared struct {
	order     PrepareOrder
	steps     *sequence
	gauge     *gauge
	roots     []int
	work      []Work
	returning map[int]Returning
	files     map[string]*os.File // saved libraries that are not at their paths

	mu sync.Mutex // guards returning and work while they are being made
}

// Brought is a tree that runs again.
type Brought struct {
	// Trees are one for each root of the image, in its order.
	Trees []Restored
	// Root is the first tree's.
	Root      proc.Identity
	Processes int
	// Took says how long each step took.
	Took      map[string]time.Duration
	returning map[int]Returning
}

// Prepare unpacks the processes' files, and starts the workers; eager ones have loaded everything
// when it returns. When it fails nothing is left of it.
func Prepare(ctx context.Context, order PrepareOrder) (*Prepared, error) {
	meter := newGauge(order.Progress)
	p := &Prepared{
		order: order, gauge: meter, steps: newSequence(order.Fail, order.Log, meter.phase),
		roots: rootsOf(order.Source.Manifest), returning: make(map[int]Returning), files: make(map[string]*os.File),
	}
	if err := p.steps.run(ctx, p.preparing()...); err != nil {
		return nil, err
	}
	return p, nil
}

// The steps of a restore come in two halves: what makes everything of an image ready but its
// processes, which a pre-restore does ahead, and what brings the processes.
//
// The workers are waited for once, by the step "ready", as late as may be. Eager ones load
// everything, which takes long, and processes do not wait for that: it is the end of the first
// half. Who holds wants to know that nothing but the processes is missing: it comes before. Else
// what a worker does is over while the processes come, so it is waited for afterwards.

// preparing is the first half.
func (p *Prepared) preparing() []step {
	steps := []step{
		{"prepare", p.checkRoots, p.release},
		{"unpack", p.unpackAll, p.clear},
		{"workers", p.startWorkers, p.endWorkers},
	}
	if p.order.Eager {
		steps = append(steps, p.readyStep())
	}
	return steps
}

// bringing is the second half.
func (b *bringing) bringing() (steps []step) {
	eager, held := b.Prepared.order.Eager, b.order.Hold != nil
	if held && !eager {
		steps = append(steps, b.readyStep())
	}
	steps = append(steps, step{"restore-hold", b.hold, nil}, step{"processes", b.processes, b.kill})
	if !held && !eager {
		steps = append(steps, b.readyStep())
	}
	return append(steps, step{"attach", b.attach, nil}, step{"keep", b.keep, nil})
}

func (p *Prepared) readyStep() step { return step{"ready", p.ready, nil} }

// release lets the image go.
func (p *Prepared) release() {
	if p.order.Source.Release != nil {
		p.order.Source.Release()
	}
}

// rootsOf are the processes whose parents are not in the image.
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

// checkRoots refuses what a manifest may say and no checkpoint has written.
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

// ErrPartial means that an image does not have all that a restore needs.
var ErrPartial = errors.New("a partial image")

// unpackAll writes CRIU's files where only CRIU gets to them.
func (p *Prepared) unpackAll(ctx context.Context) error {
	m := p.order.Source.Manifest
	for _, root := range p.roots {
		work, err := p.order.Work(m.CPU.Bytes, m.Owner.UID, m.Owner.GID)
		if err != nil {
			return err
		}
		p.work = append(p.work, work)
		if err := unpack(ctx, p.order.Source.Reader, m.CPU.Tree, work.Descriptor(), root); err != nil {
			return fmt.Errorf("unpack the processes: %w", err)
		}
	}
	for _, saved := range m.Files {
		if err := p.findLibrary(saved); err != nil {
			return err
		}
	}
	return nil
}

// findLibrary makes a copy of a saved library when its path has another content by now.
func (p *Prepared) findLibrary(saved image.SavedFile) error {
	owner := p.order.Source.Manifest.Owner
	if !saved.Library ||
		sameContent(RootOf(p.order.Place), fsuid.Rights{UID: owner.UID, GID: owner.GID, Groups: owner.Groups}, saved) {
		return nil
	}
	content, err := wholeFile(p.order.Source.Reader, saved)
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
			p.returning[each.PID] = made
			return nil
		})
	}
	return parallel(ctx, work...)
}

// ready waits until the programs may run.
func (p *Prepared) ready(ctx context.Context) error {
	var work []func(context.Context) error
	for pid, each := range p.returning {
		work = append(work, func(ctx context.Context) error {
			if err := each.Ready(ctx, func(now Step) { p.gauge.part(pid, now) }); err != nil {
				return fmt.Errorf("pid %d: %w", pid, err)
			}
			return nil
		})
	}
	return parallel(ctx, work...)
}

// Drop takes back what Prepare has made.
func (p *Prepared) Drop() { p.steps.undo() }

func (p *Prepared) endWorkers() {
	for _, each := range p.returning {
		each.Abort()
	}
	clear(p.returning)
}

// clear removes what is only needed until the processes are there.
func (p *Prepared) clear() {
	for _, work := range p.work {
		if err := work.Remove(); err != nil {
			p.steps.log.Error("clear up after a restore", "error", err)
		}
	}
	p.work = nil
	for _, file := range p.files {
		_ = file.Close() // only read
	}
	clear(p.files)
}

// Bring brings the processes back. When it fails nothing is left of the image's workers and
// processes.
func (p *Prepared) Bring(ctx context.Context, order BringOrder) (*Brought, error) {
	p.gauge.tell = func(Step) {}
	if order.Progress != nil {
		p.gauge.tell = order.Progress
	}
	b := &bringing{Prepared: p, order: order}
	if err := p.steps.run(ctx, b.bringing()...); err != nil {
		return nil, err
	}
	p.steps.keep()
	p.clear()
	p.release()
	root := b.trees[0].Processes()[p.roots[0]]
	return &Brought{
		Trees: b.trees, Root: root, Processes: len(p.order.Source.Manifest.Processes), Took: p.steps.took, returning: p.returning,
	}, nil
}

// Loaded waits until all memory is back.
func (b *Brought) Loaded(ctx context.Context) (bytes uint64, err error) {
	var mu sync.Mutex
	var work []func(context.Context) error
	for _, each := range b.returning {
		work = append(work, func(ctx context.Context) error {
			loaded, err := each.Loaded(ctx)
			mu.Lock()
			defer mu.Unlock()
			bytes += loaded
			return err
		})
	}
	return bytes, parallel(ctx, work...)
}
