package store

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// held is the write lock of an image, until it is closed.
type held struct {
	lock *os.File
	tmp  folder
}

// lock takes the write lock.
func (d *Dir) lock() (held, error) {
	// Open for writing, because NFS requires that for an exclusive lock.
	file, err := d.root.open(lockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return held{}, err
	}
	err = lock(file, d.Path(), unix.LOCK_EX)
	if err == nil {
		err = d.stillThere(file)
	}
	if err != nil {
		unlock(file)
		return held{}, err
	}
	tmp, err := d.root.makeFolder(tmpName)
	if err != nil {
		if d.marker == nil {
			_ = d.root.remove(lockName) // an Init that failed at once
		}
		unlock(file)
		return held{}, err
	}
	return held{file, tmp}, nil
}

// stillThere checks that the image was not removed between opening and locking its lock file.
func (d *Dir) stillThere(locked *os.File) error {
	for name, file := range map[string]*os.File{lockName: locked, markerName: d.marker} {
		if file == nil {
			continue
		}
		var have, want unix.Stat_t
		err := d.root.as(func() error { return unix.Fstatat(d.root.fd(), name, &have, unix.AT_SYMLINK_NOFOLLOW) })
		if errors.Is(err, unix.ENOENT) ||
			err == nil && unix.Fstat(int(file.Fd()), &want) == nil && have.Ino != want.Ino {
			return fmt.Errorf("%w: %s was removed in the meantime", ErrNoImage, d.root.path(name))
		}
		if err != nil {
			return d.root.fail("stat", name, err)
		}
	}
	return nil
}

func (h held) close() {
	h.tmp.close()
	unlock(h.lock)
}

// unlock releases a lock and closes its file. Closing alone is not enough: a child process that is
// just being started holds the file, too, until it executes its program.
func unlock(file *os.File) {
	_ = flock(int(file.Fd()), unix.LOCK_UN)
	_ = file.Close()
}

// flock is replaced by tests, because not every file system has locks.
var flock = unix.Flock

// lock locks an open file, or returns an error with the holder. It does not wait.
func lock(file *os.File, path string, how int) error {
	var err error
	for range openAttempts {
		if err = flock(int(file.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid := proc.LockHolder(file)
		return &LockedError{Path: path, PID: pid, Command: commandOf(pid)}
	}
	if errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = fmt.Errorf(
			"%w (%w): use another file system, or mount this one with locks (NFS: run its lock service, "+
				"or mount it with local_lock=flock if only one host writes)",
			ErrNoLocks,
			err,
		)
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	return nil
}

// commandOf returns the name of a process.
func commandOf(pid int) string {
	if name := (proc.Identity{PID: pid}).Name(); name != "" {
		return name
	}
	return "exited"
}
