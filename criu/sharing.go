package criu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// sharing coordinates the files of restored trees. A file that the saved program or another tree of
// the same image is writing is not restored: both programs write to it from then on. Any other file
// is restored, and no second restore does the same at the same time.
type sharing struct {
	mu    sync.Mutex
	trees map[*restored]bool
	busy  map[string]bool
	// unfinished has all unfinished restores, and some that have finished since.
	unfinished []*unfinished
	// changed is closed and replaced when files become free.
	changed chan struct{}
}

// reserve waits until no other restore uses any of these files.
func (s *sharing) reserve(ctx context.Context, files []ckpt.FileContent) (release func(), err error) {
	for {
		s.mu.Lock()
		if s.changed == nil {
			s.changed, s.busy, s.trees = make(chan struct{}), map[string]bool{}, map[*restored]bool{}
		}
		free := !slices.ContainsFunc(files, func(f ckpt.FileContent) bool { return s.busy[f.Path] })
		for _, file := range files {
			s.busy[file.Path] = s.busy[file.Path] || free
		}
		changed := s.changed
		s.mu.Unlock()
		if free {
			return func() { s.release(files) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("another restore is restoring the same files: %w", context.Cause(ctx))
		}
	}
}

func (s *sharing) release(files []ckpt.FileContent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range files {
		delete(s.busy, file.Path)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// add adds a restored tree.
func (s *sharing) add(r *restored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil {
		s.changed, s.busy, s.trees = make(chan struct{}), map[string]bool{}, map[*restored]bool{}
	}
	s.trees[r] = true
}

// treeOf returns the restored tree to which a process belongs, or nil.
func (s *sharing) treeOf(process proc.Identity) *restored {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.trees))
	s.mu.Unlock()
	for _, tree := range all {
		if restorer := tree.client.Identity(); proc.Descends(process.PID, restorer.PID) && !restorer.Gone() {
			return tree
		}
	}
	return nil
}

// living returns the processes of all trees that still exist.
func (s *sharing) living() (found []proc.Identity) {
	s.mu.Lock()
	trees := slices.Collect(maps.Keys(s.trees))
	s.mu.Unlock()
	for _, tree := range trees {
		inner, err := tree.client.Processes()
		if errors.Is(err, proc.ErrGone) || err == nil && len(inner) == 0 {
			s.mu.Lock()
			delete(s.trees, tree)
			s.mu.Unlock()
		}
		found = slices.AppendSeq(found, maps.Values(inner))
	}
	return found
}

// writers returns which of the files are being written, and by which process: one of a restored
// tree or of the saved processes.
func (s *sharing) writers(
	user fsuid.Rights,
	root *rootdir.Root,
	files []ckpt.FileContent,
	saved []int,
) map[string]proc.Identity {
	if len(files) == 0 {
		return nil
	}
	candidates := s.living()
	for _, pid := range saved {
		if id, err := proc.Of(pid); err == nil {
			candidates = append(candidates, id)
		}
	}
	pids := make([]int, len(candidates))
	for i, id := range candidates {
		pids[i] = id.PID
	}
	paths := make([]string, len(files))
	for i, file := range files {
		paths[i] = file.Path
	}
	return savedfile.Writers(user, root, paths, pids)
}

// sharedFiles returns which files of an order are not restored, and gives notice of them.
func (c *CPU) sharedFiles(order ckpt.RestoreOptions, r *record) (map[string]bool, error) {
	pids, err := threads(order.Images)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	for i := range pids {
		pids[i] = r.outside(pids[i])
	}
	shared := map[string]bool{}
	user := fsuid.Rights{UID: order.UID, GID: order.GID, Groups: order.Groups}
	writers := c.sharing.writers(user, order.PlaceRoot, order.Files, pids)
	for _, path := range slices.Sorted(maps.Keys(writers)) {
		if order.NewPids && restorer.Private(path) {
			continue
		}
		shared[path] = true
		if order.Notice != nil && !keeps(order.Files, path) {
			order.Notice(fmt.Sprintf("file %s: %s writes it, too; it is not restored, and both write to it",
				path, writers[path].DescribeTo(user.UID)))
		}
	}
	return shared, nil
}

// keeps reports whether a file is kept for another reason, too, of which notice was given.
func keeps(files []ckpt.FileContent, path string) bool {
	return slices.ContainsFunc(files, func(f ckpt.FileContent) bool { return f.Keep && f.Path == path })
}

// pathsOf returns the paths of the files that CRIU must open whatever their size is.
func pathsOf(order ckpt.RestoreOptions) map[string]bool {
	paths := make(map[string]bool, len(order.Written))
	for _, path := range order.Written {
		paths[path] = true
	}
	for _, file := range order.Files {
		paths[file.Path] = true
	}
	return paths
}
