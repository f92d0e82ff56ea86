package restorer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sharedMemory is where processes that know each other share memory and semaphores by name.
const sharedMemory = "/dev/shm"

// mostShown is how many files of others a clone still sees in there.
const mostShown = 256

// Private reports whether a file at a path is a clone's own: two programs that come of one image
// must not take each other's semaphores for theirs.
func Private(path string) bool { return strings.HasPrefix(path, sharedMemory+"/") }

// ownMemory gives a clone a shared memory of its own, into which its files are brought back. What
// else lies in the outer one is seen as before.
func (k *keeper) ownMemory() error {
	if !k.order.NewPids || !slices.ContainsFunc(k.order.Written, func(w Written) bool { return Private(w.Path) }) {
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
		if shown == mostShown || slices.ContainsFunc(k.order.Written, func(w Written) bool { return w.Path == path }) {
			continue
		}
		shown++
		if err := show(outer, name, path); err != nil {
			return fmt.Errorf("own shared memory: %w", err)
		}
	}
	return nil
}

// show makes a file of the outer directory seen at a path. One that is gone by then, or no file, is
// left out.
func show(outer *os.File, name, path string) error {
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
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind", Path: path, Err: err}
	}
	return nil
}
