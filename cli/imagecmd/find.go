package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// unlimited is the depth of a search below a directory that the user has named.
const unlimited = -1

// place is a directory that may hold images, down to a depth.
type place struct {
	dir   string
	depth int
}

// knownPlaces returns where phosd has images: the last ones of the programs, the directories of
// policies, and the directory of phosd.toml's policy. In that one each user has a directory, with
// one for each program.
func knownPlaces(status *api.StatusReply) (places []place) {
	shared := status.GetDaemon().GetCheckpointDir()
	for _, p := range status.GetPrograms() {
		if dir := p.GetCheckpointDir(); dir != "" {
			places = append(places, place{dir, 0})
		}
		if dir := policyPlace(p, shared); dir != "" {
			places = append(places, place{dir, policyDepth(p.GetPolicy().GetDir())})
		}
	}
	if uid := os.Getuid(); shared != "" && uid != 0 {
		places = append(places, place{filepath.Join(shared, strconv.Itoa(uid)), 1})
	} else if shared != "" {
		places = append(places, place{shared, 2})
	}
	return places
}

// policyPlace returns the directory of a program's own policy, up to its first placeholder; "" if
// there is none, or if the program's paths mean something else than the caller's.
func policyPlace(p *api.Program, shared string) string {
	dir := p.GetPolicy().GetDir()
	if dir == "" || dir == shared {
		return ""
	}
	pid := int(p.GetPid())
	own, err := proc.OwnNamespace("mnt")
	if theirs, other := (proc.Identity{PID: pid}).Namespace("mnt"); err != nil || other != nil || own != theirs {
		return ""
	}
	if !filepath.IsAbs(dir) {
		from, err := proc.WorkingDirectory(pid)
		if err != nil {
			return ""
		}
		dir = from + "/" + dir
	}
	if before, _, found := strings.Cut(dir, "{"); found {
		dir = filepath.Dir(before)
		if strings.HasSuffix(before, "/") {
			dir = before
		}
	}
	return filepath.Clean(dir)
}

// policyDepth returns how far below the place of a policy's directory its images are.
func policyDepth(dir string) int {
	_, rest, found := strings.Cut(dir, "{")
	if !found {
		return 0
	}
	return strings.Count(rest, "/") + 1
}

// fileID identifies a directory, whatever its path.
type fileID struct{ device, inode uint64 }

// search finds images, each once.
type search struct {
	ctx   context.Context //nolint:containedctx // of one command
	seen  map[fileID]bool
	found []string
}

// below adds the images in a directory and below it. It follows a link only if the user names it,
// and skips what the caller may not read.
func (s *search) below(dir string, depth int) error {
	root, err := filepath.Abs(dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return fmt.Errorf("search %s: %w", dir, err)
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case s.ctx.Err() != nil:
			return fs.SkipAll
		case err != nil && path == root:
			return fmt.Errorf("search %s: %w", dir, err)
		case err != nil:
			return nil // it is gone, or another user's
		case !entry.IsDir():
			return nil
		}
		return s.visit(path, depth >= 0 && depthBelow(root, path) >= depth)
	})
}

// visit adds a directory if it is an image. It returns SkipDir if nothing below it is looked at.
func (s *search) visit(path string, last bool) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fs.SkipDir
	}
	defer dir.Close()
	var info unix.Stat_t
	var system unix.Statfs_t
	if unix.Fstat(int(dir.Fd()), &info) != nil || unix.Fstatfs(int(dir.Fd()), &system) != nil {
		return fs.SkipDir
	}
	id := fileID{info.Dev, info.Ino}
	if system.Type == unix.PROC_SUPER_MAGIC || system.Type == unix.SYSFS_MAGIC || s.seen[id] {
		return fs.SkipDir
	}
	opened, err := store.Open(dir)
	if err == nil {
		opened.Close()
	}
	if !errors.Is(err, store.ErrNoImage) { // an image, maybe a damaged one
		s.seen[id] = true
		s.found = append(s.found, path)
		return fs.SkipDir
	}
	if last {
		return fs.SkipDir
	}
	return nil
}

// depthBelow returns how many directories a path is below another.
func depthBelow(root, path string) int {
	relative, err := filepath.Rel(root, path)
	if err != nil || relative == "." {
		return 0
	}
	return strings.Count(relative, "/") + 1
}
