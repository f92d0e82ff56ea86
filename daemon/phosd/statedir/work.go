package statedir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Work is a private directory for the files of one checkpoint or restore. It belongs to the
// program's user, but its path leads through directories of root: only processes that have its
// descriptor can use it.
type Work struct {
	*os.File
	path string
	// InMemory means that it is on a tmpfs.
	InMemory bool
}

// NewWork makes a directory for about so many bytes: in memory, if they fit and are at most
// memoryBytes.
func (d *Dir) NewWork(bytes, memoryBytes uint64, uid, gid uint32) (*Work, error) {
	parent, inMemory := d.own.Name(), false
	if d.memory != "" && bytes <= memoryBytes && d.memoryFree() >= bytes {
		parent, inMemory = d.memory, true
	}
	path, err := os.MkdirTemp(parent, "work-")
	if err != nil {
		return nil, fmt.Errorf("work directory: %w", err)
	}
	file, err := os.Open(path)
	if err == nil {
		err = errors.Join(file.Chmod(0o700), file.Chown(int(uid), int(gid)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("work directory: %w", err), os.RemoveAll(path))
	}
	return &Work{File: file, path: path, InMemory: inMemory}, nil
}

// memoryFree returns the free bytes of the file system in memory; 0 if it has no answer.
func (d *Dir) memoryFree() uint64 {
	var at unix.Statfs_t
	if unix.Statfs(d.memory, &at) != nil {
		return 0
	}
	return at.Bavail * uint64(at.Bsize)
}

// Remove deletes the directory with its content.
func (w *Work) Remove() error {
	return errors.Join(w.Close(), os.RemoveAll(w.path))
}
