package statedir

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Work is a private directory for the files of one checkpoint or restore. It belongs to the
// program's user, but its path leads through directories of root: only processes that have its
// descriptor can use it.
type Work struct {
	*os.File
	path string
	// InMemory means that it is on a tmpfs of its own.
	InMemory bool
	// unmount unmounts that tmpfs.
	unmount func() error
}

// NewWork makes a directory for about so many bytes: in memory, if they fit and are at most
// memoryBytes. In memory it has a tmpfs of its own, of that size. So what one program writes there
// cannot take the room that was promised to others.
func (d *Dir) NewWork(bytes, memoryBytes uint64, uid, gid uint32) (*Work, error) {
	if bytes <= memoryBytes {
		if work := d.workInMemory(bytes, uid, gid); work != nil {
			return work, nil
		}
	}
	path, err := os.MkdirTemp(d.own.Name(), "work-")
	if err != nil {
		return nil, fmt.Errorf("work directory: %w", err)
	}
	return openWork(path, uid, gid)
}

// openWork opens a directory and gives it to a user. On failure it removes the directory.
func openWork(path string, uid, gid uint32) (*Work, error) {
	file, err := os.Open(path)
	if err == nil {
		err = errors.Join(file.Chmod(0o700), file.Chown(int(uid), int(gid)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("work directory: %w", err), os.RemoveAll(path))
	}
	return &Work{File: file, path: path, unmount: func() error { return nil }}, nil
}

// workInMemory makes a directory with a tmpfs of its own; nil if there is no room, or if it cannot
// be mounted.
func (d *Dir) workInMemory(bytes uint64, uid, gid uint32) *Work {
	// More than the content: whole pages, and the directories.
	size := bytes + bytes/16 + 1<<20
	if size < bytes || !d.promise(size) {
		return nil
	}
	path, err := os.MkdirTemp(d.memory, "work-")
	if err != nil {
		d.withdraw(size)
		return nil
	}
	if err := mountTmpfs(path, size); err != nil {
		_ = os.Remove(path)
		d.withdraw(size)
		return nil
	}
	unmount := sync.OnceValue(func() error {
		d.withdraw(size)
		return os.NewSyscallError("unmount", unix.Unmount(path, unix.MNT_DETACH))
	})
	work, err := openWork(path, uid, gid)
	if err != nil {
		_ = unmount()
		_ = os.Remove(path)
		return nil
	}
	work.InMemory, work.unmount = true, unmount
	return work
}

// mountTmpfs mounts a tmpfs that only root can enter.
func mountTmpfs(path string, bytes uint64) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return unix.Mount("phos-work", path, "tmpfs", flags, fmt.Sprintf("mode=0700,size=%d", bytes))
}

// promise reserves memory for a directory, and reports whether there is enough.
func (d *Dir) promise(bytes uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory == "" || bytes > d.memoryBytes-d.promised {
		return false
	}
	d.promised += bytes
	return true
}

// withdraw undoes promise.
func (d *Dir) withdraw(bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.promised -= bytes
}

// FreeBytes returns the free bytes of the disk of the state directory; 0 if it has no answer.
func (d *Dir) FreeBytes() uint64 { return FreeBytes(d.path) }

// FreeBytes returns the free bytes of a file system; 0 if it has no answer.
func FreeBytes(path string) uint64 {
	var at unix.Statfs_t
	if unix.Statfs(path, &at) != nil {
		return 0
	}
	return at.Bavail * uint64(at.Bsize)
}

// Remove deletes the directory with its content.
func (w *Work) Remove() error {
	return errors.Join(w.Close(), w.unmount(), os.RemoveAll(w.path))
}
