package restorer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// sharedMemory is the directory of POSIX shared memory and semaphores.
const sharedMemory = "/dev/shm"

// maxShown is the largest number of other programs' files that a clone still sees there.
const maxShown = 256

// Private reports whether a clone gets its own copy of the file at path. Two programs from one
// image must not share semaphores.
func Private(path string) bool { return savedfile.InSharedMemory(path) }

// mountSharedMemory gives a clone its own /dev/shm, into which its files are restored. Other files
// of the outer directory stay visible.
func (s *server) mountSharedMemory() error {
	if !s.order.NewPids || !slices.ContainsFunc(s.order.Written, func(w Written) bool { return Private(w.Path) }) {
		return nil
	}
	outer, err := os.Open(sharedMemory)
	if err != nil {
		return fmt.Errorf("own shared memory: %w", err)
	}
	defer outer.Close()
	names, err := outer.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("own shared memory: %w", err)
	}
	if err := unix.Mount("phos", sharedMemory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("own shared memory: %w", err)
	}
	shown := 0
	for _, name := range names {
		path := filepath.Join(sharedMemory, name)
		if shown == maxShown || slices.ContainsFunc(s.order.Written, func(w Written) bool { return w.Path == path }) {
			continue
		}
		shown++
		if err := bindFile(outer, name, path); err != nil {
			return fmt.Errorf("own shared memory: %w", err)
		}
	}
	return nil
}

// bindFile makes a file of the outer directory visible at path. Files that have been removed, and
// everything that is not a regular file, are left out.
func bindFile(outer *os.File, name, path string) error {
	fd, err := unix.Openat(int(outer.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil || info.Mode&unix.S_IFMT != unix.S_IFREG || info.Nlink == 0 {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := unix.Mount(proc.OwnFile(fd), path, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind", Path: path, Err: err}
	}
	return nil
}
