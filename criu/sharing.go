package criu

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/internal/linux/proc"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// sharing keeps restored trees from taking each other's files away. A file that the program itself,
// or another tree of the same image, is writing stays as it is: whoever restores beside it wants
// two programs, and what both write into one file is his affair. Any other file is brought back,
// and while it is, no second restore does the same.
type sharing struct {
	mu    sync.Mutex
	trees map[*restored]bool
	busy  map[string]bool
	// changed is closed, and made anew, when files are free again.
	changed chan struct{}
}

// reserve waits until nobody else brings any of these files back.
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
			return nil, fmt.Errorf("another restore brings the same files back: %w", context.Cause(ctx))
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

// add notes a tree that has come back.
func (s *sharing) add(r *restored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil {
		s.changed, s.busy, s.trees = make(chan struct{}), map[string]bool{}, map[*restored]bool{}
	}
	s.trees[r] = true
}

// living are the processes of all trees that are still there.
func (s *sharing) living() (found []proc.Identity) {
	s.mu.Lock()
	trees := slices.Collect(maps.Keys(s.trees))
	s.mu.Unlock()
	for _, tree := range trees {
		inner, err := tree.client.Processes()
		if err != nil || len(inner) == 0 {
			s.mu.Lock()
			delete(s.trees, tree)
			s.mu.Unlock()
		}
		found = slices.AppendSeq(found, maps.Values(inner))
	}
	return found
}

// writers finds who writes which of the files, by their paths: of the restored trees, and of the
// processes that were saved.
func (s *sharing) writers(
	user fsuid.Rights,
	root string,
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
	written := map[fileID]proc.Identity{}
	for _, id := range candidates {
		for _, file := range writtenBy(id.PID) {
			written[file] = id
		}
	}
	found := map[string]proc.Identity{}
	for _, file := range files {
		var now unix.Stat_t
		if user.Do(func() error { return unix.Stat(filepath.Join(root, file.Path), &now) }) != nil {
			continue
		}
		if id, is := written[fileID{now.Dev, now.Ino}]; is {
			found[file.Path] = id
		}
	}
	return found
}

// fileID names a file, whatever its path.
type fileID struct{ device, inode uint64 }

// writtenBy are the files that a process may write: those open for it, and those mapped for it.
func writtenBy(pid int) (files []fileID) {
	// Who ends meanwhile writes nothing any more.
	descriptors, _ := proc.Descriptors(pid)
	for i := range descriptors {
		if d := &descriptors[i]; d.Format() == unix.S_IFREG && d.Writable() {
			files = append(files, fileID{d.Stat.Dev, d.Stat.Ino})
		}
	}
	mappings, _ := proc.Mappings(pid)
	for i := range mappings {
		m := &mappings[i]
		if !m.Shared() || !m.Writable() || !strings.HasPrefix(m.Path, "/") {
			continue
		}
		var stat unix.Stat_t
		if unix.Stat(m.File(pid), &stat) == nil {
			files = append(files, fileID{stat.Dev, stat.Ino})
		}
	}
	return files
}

// share finds out which files of an order stay as they are, and says so.
func (c *CPU) share(order ckpt.RestoreOrder, r *record) (map[string]bool, error) {
	pids, err := threads(order.Images)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	for i := range pids {
		pids[i] = r.outside(pids[i])
	}
	shared := map[string]bool{}
	writers := c.sharing.writers(
		fsuid.Rights{UID: order.UID, GID: order.GID, Groups: order.Groups},
		ckpt.RootOf(order.Place),
		order.Files,
		pids,
	)
	for _, path := range slices.Sorted(maps.Keys(writers)) {
		if order.NewPids && restorer.Private(path) {
			continue
		}
		shared[path] = true
		if order.Notice != nil {
			id := writers[path]
			order.Notice(
				fmt.Sprintf(
					"file %s: pid %d (%s), of the same image, writes it too; it stays as it is, and both write into it",
					path,
					id.PID,
					id.Name(),
				),
			)
		}
	}
	return shared, nil
}

// pathsOf are the files that CRIU must open whatever their length is.
func pathsOf(files []ckpt.FileContent) map[string]bool {
	paths := make(map[string]bool, len(files))
	for _, file := range files {
		paths[file.Path] = true
	}
	return paths
}
