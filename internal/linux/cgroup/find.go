package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrNone is returned when the kernel, or the container of this process, has no cgroups of version
// 2.
var ErrNone = errors.New("no cgroups of version 2 here: mount cgroup2 on /sys/fs/cgroup or /sys/fs/cgroup/unified")

// mount is the mount point of the cgroup2 hierarchy and the cgroup at its top.
type mount struct{ point, top string }

func findMount(mountinfo string) (mount, error) {
	mounts, err := proc.ParseMounts(mountinfo)
	if err != nil {
		return mount{}, err
	}
	for _, each := range mounts {
		if each.Kind == "cgroup2" {
			return mount{point: each.Point, top: each.Root}, nil
		}
	}
	return mount{}, ErrNone
}

// hierarchy returns the mount of the cgroup2 hierarchy.
func hierarchy() (mount, error) {
	text, err := proc.Mountinfo()
	if err != nil {
		return mount{}, err
	}
	return findMount(text)
}

// Top returns the directory of the topmost cgroup that this process can see. In a container it is
// not that of the host.
func Top() (string, error) {
	found, err := hierarchy()
	return found.point, err
}

// Of returns the directory of the cgroup of a process.
func Of(pid int) (string, error) {
	found, err := hierarchy()
	if err != nil {
		return "", err
	}
	text, err := proc.Cgroups(pid)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return found.directory(pid, strings.TrimSuffix(path, " (deleted)"))
		}
	}
	return "", fmt.Errorf("pid %d: %w", pid, ErrNone)
}

// directory returns where the mount shows a cgroup path. pid is for the error.
func (m mount) directory(pid int, path string) (string, error) {
	below, err := filepath.Rel(m.top, path)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") || strings.HasPrefix(path, "/..") {
		return "", fmt.Errorf("pid %d is in cgroup %s, which %s does not show", pid, path, m.point)
	}
	return filepath.Join(m.point, below), nil
}

// Find lists the directories of cgroups whose names match a pattern. It does not search inside
// those.
func Find(pattern string) (found []string, err error) {
	top, err := Top()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		if match, err := filepath.Match(pattern, entry.Name()); err != nil || !match {
			return err
		}
		found = append(found, path)
		return fs.SkipDir
	})
	return found, err
}
