package hosts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// kind is in the names of cgroups and directories of fleets.
const kind = "hosts"

// sweepOnce is sweep, once in a process.
var sweepOnce = sync.OnceValue(sweep)

// sweep ends the hosts of processes that have ended, and removes their cgroups and directories.
func sweep() error {
	mounts, failed := readMounts()
	for _, each := range mounts {
		if each.Kind == "cgroup" || each.Kind == "cgroup2" {
			failed = errors.Join(failed, sweepGroups(each.Point))
		}
	}
	entries, err := os.ReadDir(place)
	failed = errors.Join(failed, err)
	for _, each := range entries {
		if orphaned(each.Name()) {
			path := filepath.Join(place, each.Name())
			failed = errors.Join(failed, unmountFrom(path), os.RemoveAll(path))
		}
	}
	return failed
}

// unmountFrom unmounts what is mounted at a directory and below it, the innermost first.
func unmountFrom(directory string) error {
	mounts, err := readMounts()
	for _, each := range slices.Backward(mounts) {
		if strings.HasPrefix(each.Point+"/", directory+"/") {
			err = errors.Join(err, unix.Unmount(each.Point, unix.MNT_DETACH))
		}
	}
	return err
}

// sweepGroups removes the orphaned groups of a hierarchy, with their processes.
func sweepGroups(top string) error {
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // another process removes its own
			return nil
		case err != nil || !entry.IsDir() || !orphaned(entry.Name()):
			return err
		}
		if err := errors.Join(killGroup(path), removeGroup(path)); err != nil {
			return err
		}
		return fs.SkipDir
	})
}

// killGroup kills all processes in a group and below. Init is among those of version 2, and all
// other processes of a host end with it.
func killGroup(directory string) error {
	pids, err := processesBelow(directory)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return err
}

// orphaned reports whether a name contains a process that has ended.
func orphaned(name string) bool {
	owner, ok := cgroup.OwnerOf(kind, name)
	return ok && owner.Gone()
}
