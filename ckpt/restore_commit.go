package ckpt

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// restore is the second half of a restore: the processes of a prepared image.
type restore struct {
	*Prepared
	order CommitOptions
	trees []Restored
	// lazyBytes is how much memory comes while the processes run.
	lazyBytes uint64
}

// Commit restores the processes. On failure it ends the image's workers and processes.
func (p *Prepared) Commit(ctx context.Context, order CommitOptions) (*RestoreResult, error) {
	p.progress.report = func(Step) {}
	if order.Progress != nil {
		p.progress.report = order.Progress
	}
	r := &restore{Prepared: p, order: order}
	if err := p.steps.run(ctx, r.commitSteps()...); err != nil {
		return nil, err
	}
	p.steps.keep()
	p.removeTemporary()
	p.release()
	root := r.trees[0].Processes()[p.roots[0]]
	return &RestoreResult{
		Trees: r.trees, Root: root, Processes: len(p.order.Source.Manifest.Processes), Took: p.steps.took,
		workers: p.workers, lazyBytes: r.lazyBytes,
	}, nil
}

// hold calls the Hold of the options, with the deadline.
func (r *restore) hold(ctx context.Context) error {
	if r.order.Hold == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Prepared.order.Deadline)
	defer cancel()
	return r.order.Hold(ctx)
}

// processes runs CRIU to restore the processes. They stay frozen.
func (r *restore) processes(ctx context.Context) error {
	m := r.Prepared.order.Source.Manifest
	limit := r.Prepared.order.Deadline + time.Duration(m.CPU.Bytes/dumpSecondBytes)*time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for i, root := range r.roots {
		restored, err := r.restoreTree(ctx, i, root)
		if err != nil {
			return fmt.Errorf("restore processes: %w", err)
		}
		r.trees = append(r.trees, restored)
		if r.order.Found != nil {
			r.order.Found(restored)
		}
	}
	return nil
}

// restoreTree restores one tree.
func (r *restore) restoreTree(ctx context.Context, index, root int) (Restored, error) {
	m := r.Prepared.order.Source.Manifest
	order := RestoreOptions{
		Images: r.workDirs[index].Descriptor(),
		UID:    m.Owner.UID, GID: m.Owner.GID, Groups: m.Owner.Groups,
		Root: root, NewPids: r.order.NewPids, Remap: r.remap(),
		Endpoints: r.order.Endpoints, Described: m.Endpoints, Written: writtenPaths(m),
		Control: r.order.Control(), Cgroup: r.order.Cgroup, Log: r.order.Output, Detach: r.order.Detach,
		Notice: r.order.Notice, Place: r.order.Place, PlaceRoot: r.order.Root, Network: r.order.Network,
		Memory: r.memories[index], Eager: r.Prepared.order.Eager,
	}
	if order.Memory != nil {
		r.lazyBytes += order.Memory.Bytes()
	}
	if index > 0 { // files are restored once, with the first tree
		return r.Prepared.order.CPU.Restore(ctx, order)
	}
	return r.restoreWithFiles(ctx, order)
}

// remap returns the files that replace mapped paths, by path.
func (r *restore) remap() map[string]*os.File {
	remap := make(map[string]*os.File)
	for _, each := range r.workers {
		for path, file := range each.Files() {
			remap[path] = file
		}
	}
	for path, file := range r.files {
		remap[path] = file
	}
	return remap
}

// killTrees kills the trees that were restored so far.
func (r *restore) killTrees() {
	for _, tree := range r.trees {
		if err := tree.Kill(); err != nil {
			r.steps.log.Error("cannot kill a tree after a failed restore", "error", err)
		}
	}
	r.trees = nil
}

// attach gives each worker its program.
func (r *restore) attach(ctx context.Context) error {
	all := make(map[int]proc.Identity)
	for _, tree := range r.trees {
		for pid, id := range tree.Processes() {
			all[pid] = id
		}
	}
	var work []func(context.Context) error
	for pid, worker := range r.workers {
		work = append(work, func(ctx context.Context) error {
			id, found := all[pid]
			if !found {
				return fmt.Errorf("pid %d: %w: CRIU did not restore this process", pid, image.ErrMalformed)
			}
			if err := worker.Attach(ctx, id); err != nil {
				return fmt.Errorf("pid %d: %w", pid, err)
			}
			return nil
		})
	}
	return pool.Run(ctx, work...)
}

// keepTrees lets all trees run. If it fails, the undo of an earlier step kills them.
func (r *restore) keepTrees(context.Context) error {
	for _, tree := range r.trees {
		if err := tree.Keep(); err != nil {
			return fmt.Errorf("resume processes: %w", err)
		}
	}
	return nil
}

// sameContent reports whether the library at its path is unchanged since the checkpoint.
func sameContent(root *rootdir.Root, as fsuid.Rights, saved image.SavedFile) bool {
	file, info, err := savedfile.Open(as, root, saved.Path)
	if err != nil {
		return false
	}
	defer file.Close()
	if uint64(info.Size()) != saved.Bytes {
		return false
	}
	hash, err := savedfile.Hash(saved.Path, file, saved.Bytes)
	return err == nil && hash == saved.Hash
}
